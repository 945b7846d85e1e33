"""`txmq metrics`: names and labels, values, counters that never go backwards, and what is built on them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from moment import NOW_TEXT as NOON
from prometheus_client.parser import text_string_to_metric_families
from views.conftest import append
from views.test_status import ROWS

from txmq_lib.config.resources import conf_dir
from txmq_lib.views import metrics
from txmq_lib.views.counters import Piece, carried_over, notes
from txmq_lib.views.metric_names import FAMILIES

NODE = {"node_type": "broker", "node_id": "a"}


def at(clock: str) -> str:
    return f"2026-11-21T{clock}Z"


def committed(offset: int, born: str, stored: str, **more: Any) -> dict[str, Any]:
    place = {"broker_name": "a", "topic": "T", "queue_id": 0, "queue_offset": offset, "sys_flag": 8}
    return {**place, "born_timestamp": at(born), "store_timestamp": at(stored), **more}


MESSAGES = [
    committed(100, "11:00:00", "11:00:05.999"),  # five whole seconds
    committed(101, "11:00:00", "11:00:06"),
    committed(102, "11:00:00", "11:00:00.100", sys_flag=0x9),
    committed(103, "11:00:00", "10:59:00"),  # clocks that differ
    committed(104, "11:00:00", "11:00:01", topic="U"),
    committed(105, "11:00:00", "11:00:01", sys_flag=0),  # no commit
    committed(106, "11:00:00", "11:00:01", topic="%RETRY%CG"),  # a copy
    committed(107, "11:00:00", "11:00:01", topic="SCHEDULE_TOPIC_XXXX"),
]


@pytest.fixture
def metrics_shown(txmq):
    """Runs the command on a warehouse and gives every sample of its output by (name, labels)."""

    def run(uri: str, out: str = "-") -> dict[Any, float]:
        status, text, err = txmq("--warehouse", uri, "metrics", "--out", out, "--now", NOON)
        assert status == 0, err
        if out != "-":
            with open(out, encoding="utf-8") as file:
                text = file.read()
        return samples(text)

    return run


def samples(text: str) -> dict[Any, float]:
    families = list(text_string_to_metric_families(text))
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def key(name: str, **labels: str) -> Any:
    return name, frozenset(labels.items())


def test_names_and_labels_are_those_of_rocketmq_5_and_txmqs_own():
    # From BrokerMetricsConstant and the documentation of RocketMQ 5; a change here breaks other people's dashboards.
    topic = ("node_type", "node_id", "topic")
    consumer = ("node_type", "node_id", "consumer_group", "topic", "is_retry", "is_system")
    rocketmq = {(f.name, f.kind, f.labels) for f in FAMILIES if f.name.startswith("rocketmq_")}
    assert rocketmq == {
        ("rocketmq_half_messages", "gauge", topic),
        ("rocketmq_commit_messages", "counter", topic),
        ("rocketmq_rollback_messages", "counter", topic),
        ("rocketmq_finish_message_latency", "histogram", topic),
        ("rocketmq_consumer_lag_messages", "gauge", consumer),
        ("rocketmq_consumer_lag_latency", "gauge", consumer),
    }
    assert {f.name for f in FAMILIES if not f.name.startswith("rocketmq_")} == {
        "txmq_pending_transactions", "txmq_pending_due_transactions", "txmq_pending_oldest_timestamp_seconds",
        "txmq_checks", "txmq_check_answers", "txmq_given_up_messages", "txmq_verdicts", "txmq_orphans",
        "txmq_consumer_queues", "txmq_unchecked_half_messages",
        "txmq_consumer_rewinds", "txmq_quarantined_records", "txmq_landed_timestamp_seconds", "txmq_passes",
        "txmq_unfinished_passes", "txmq_last_pass_timestamp_seconds", "txmq_last_pass_duration_seconds",
        "txmq_collected_timestamp_seconds", "txmq_series_left_out", "txmq_step_failures", "txmq_last_landing_timestamp_seconds",
    }  # fmt: skip


def test_commits_are_counted_with_the_seconds_they_took_and_copies_are_not(warehouse, metrics_shown):
    found = metrics_shown(warehouse({"message": MESSAGES}))
    commits = {labels: value for (name, labels), value in found.items() if name == "rocketmq_commit_messages_total"}
    assert commits == {frozenset({**NODE, "topic": "T"}.items()): 4, frozenset({**NODE, "topic": "U"}.items()): 1}
    buckets = [("5.0", 3), ("60.0", 4), ("600.0", 4), ("3600.0", 4), ("43200.0", 4), ("86400.0", 4), ("+Inf", 4)]
    for bound, count in buckets:
        assert found[key("rocketmq_finish_message_latency_bucket", **NODE, topic="T", le=bound)] == count
    assert found[key("rocketmq_finish_message_latency_sum", **NODE, topic="T")] == 11
    assert found[key("rocketmq_finish_message_latency_count", **NODE, topic="T")] == 4


def test_of_names_without_end_the_most_are_told_and_how_many_are_not(warehouse, metrics_shown, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_SERIES", 2)
    pending = [
        {"broker_name": "a", "real_topic": f"T{topic}", "producer_group": "G", "transaction_id": f"{topic}-{n}"}
        for topic in range(5)
        for n in range(5 - topic)
    ]
    found = metrics_shown(warehouse({"pending_half": pending}))
    halves = {labels: value for (name, labels), value in found.items() if name == "rocketmq_half_messages"}
    assert halves == {frozenset({**NODE, "topic": f"T{topic}"}.items()): 5 - topic for topic in range(2)}
    assert found[key("txmq_series_left_out", metric="rocketmq_half_messages")] == 3
    assert {labels for name, labels in found if name == "txmq_series_left_out"} == {
        frozenset({("metric", "rocketmq_half_messages")})
    }


def test_half_messages_verdicts_and_rollbacks_are_counted_by_broker_and_topic(warehouse, metrics_shown):
    verdict = {"broker_name": "a", "real_topic": "T"}
    rows = {
        "pending_half": [
            {"broker_name": "a", "real_topic": "T", "producer_group": "G", "transaction_id": "1",
             "first_store_timestamp": at("11:00:00"), "next_check_timestamp": NOON},
            {"broker_name": "a", "real_topic": "T", "producer_group": None, "transaction_id": "2",
             "first_store_timestamp": at("10:00:00")},
            {"broker_name": "a", "real_topic": None, "producer_group": "G", "transaction_id": "3",
             "first_store_timestamp": at("11:30:00")},
            {"broker_name": "a", "real_topic": "T", "producer_group": "H", "transaction_id": "4", "is_held": True,
             "first_store_timestamp": at("09:00:00")},
        ],
        "verdict": [{**verdict, "transaction_id": str(n), "verdict": v} for n, v in enumerate(
            ["ROLLED_BACK", "ROLLED_BACK", "CONFLICT", "DISCARDED"])],
    }  # fmt: skip
    found = metrics_shown(warehouse(rows))
    assert found[key("rocketmq_half_messages", **NODE, topic="T")] == 3
    assert found[key("rocketmq_half_messages", **NODE, topic="")] == 1
    assert found[key("txmq_pending_transactions", **NODE, producer_group="G")] == 2
    assert found[key("txmq_pending_due_transactions", **NODE, producer_group="G")] == 1
    assert found[key("txmq_pending_due_transactions", **NODE, producer_group="")] == 0
    assert found[key("txmq_pending_oldest_timestamp_seconds", **NODE, producer_group="G")] == 1_795_258_800
    # Nobody is asked about what somebody holds.
    assert key("txmq_pending_oldest_timestamp_seconds", **NODE, producer_group="H") not in found
    assert found[key("rocketmq_rollback_messages_total", **NODE, topic="T")] == 2
    assert found[key("txmq_verdicts", **NODE, verdict="ROLLED_BACK")] == 2
    assert found[key("txmq_verdicts", **NODE, verdict="CONFLICT")] == 1


def test_committed_messages_without_a_half_are_counted_until_it_lands(warehouse, metrics_shown):
    states = ["orphan", "orphan", "before_first", "half_landed"]
    rows = [{"broker_name": "a", "topic": "T", "queue_offset": n, "state": state} for n, state in enumerate(states)]
    found = metrics_shown(warehouse({"orphan": [*rows, {**rows[2], "topic": "U"}, {**rows[3], "topic": "V"}]}))
    orphans = {labels: value for (name, labels), value in found.items() if name == "txmq_orphans"}
    assert orphans == {frozenset({**NODE, "topic": "T"}.items()): 2, frozenset({**NODE, "topic": "U"}.items()): 0}


def test_lag_is_counted_per_group_and_topic_in_messages_and_in_time(warehouse, metrics_shown):
    stored = [committed(n, "11:00:00", f"11:0{n - 100}:00") for n in (100, 101, 102)]
    system = {"consumer_group": "CID_RMQ_SYS_TRANS", "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "next_offset": 7}
    rows = {
        **{name: ROWS[name] for name in ("consumer_offset", "landing_frontier")},
        "message": [*stored, committed(50, "09:00:00", "09:00:00"), committed(11, "10:00:00", "10:59:00", queue_id=1)],
    }
    rows["consumer_offset"] = [
        *rows["consumer_offset"],
        {"broker_name": "a", **system},
        {"broker_name": "a", "consumer_group": "CG3", "topic": "%RETRY%CG3", "queue_id": 0, "next_offset": 1},
    ]
    rows["landing_frontier"] = [
        *rows["landing_frontier"],
        {"broker_name": "a", "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "next_offset": 7},
        {"broker_name": "a", "topic": "%RETRY%CG3", "next_offset": 4},
    ]
    found = metrics_shown(warehouse(rows))

    def lag(name: str, group: str, topic: str, *, retry: str = "false", system: str = "false") -> float | None:
        labels = {**NODE, "consumer_group": group, "topic": topic, "is_retry": retry, "is_system": system}
        return found.get(key(f"rocketmq_consumer_lag_{name}", **labels))

    assert (lag("messages", "CG1", "T"), lag("messages", "CG2", "T")) == (100, 10)
    assert lag("latency", "CG1", "T") == 3 * 3_600_000  # offset 50 of 9:00 is the oldest from offset 10 on
    assert lag("latency", "CG2", "T") == 3_600_000
    assert lag("messages", "CG2", "U") is None  # the queue has not landed
    assert (lag("messages", "CG3", "%RETRY%CG3", retry="true"), lag("latency", "CG3", "%RETRY%CG3", retry="true")) == (
        3,
        None,
    )
    assert lag("latency", "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", system="true") == 0


def test_everything_else_is_told(warehouse, metrics_shown):
    found = metrics_shown(warehouse(ROWS))
    assert found[key("txmq_checks_total", node_type="broker", node_id="", producer_group="")] == 2
    assert found[key("txmq_check_answers_total", node_type="broker", node_id="", decision="commit")] == 1
    assert found[key("txmq_given_up_messages_total", node_type="broker", node_id="")] == 1
    assert found[key("txmq_consumer_queues", **NODE, consumer_group="CG1", state="beyond_end")] == 1
    assert found[key("txmq_consumer_rewinds_total", **NODE, consumer_group="CG1")] == 3
    assert found[key("txmq_quarantined_records_total", reason="OP_TAG")] == 2
    assert found[key("txmq_landed_timestamp_seconds", **NODE)] == 1_795_262_280
    assert found[key("txmq_passes_total", job="land", state="abandoned")] == 1
    assert found[key("txmq_unfinished_passes", job="reconcile")] == 1
    assert found[key("txmq_unfinished_passes", job="land")] == 0
    assert found[key("txmq_last_pass_timestamp_seconds", job="audit")] == 1_795_258_800
    assert found[key("txmq_last_pass_duration_seconds", job="audit")] == 1.5
    assert found[key("txmq_collected_timestamp_seconds")] == 1_795_262_400


def test_counters_never_go_backwards_when_rows_change_or_are_archived(warehouse, metrics_shown, tmp_path):
    uri, out = warehouse({"message": MESSAGES}), str(tmp_path / "txmq.prom")
    before = metrics_shown(uri, out)
    assert metrics_shown(uri, out) == before
    commits = key("rocketmq_commit_messages_total", **NODE, topic="T")
    first_bucket = key("rocketmq_finish_message_latency_bucket", **NODE, topic="T", le="5.0")
    DeltaTable(f"{uri}/message").delete("queue_offset <= 101 OR topic = 'U'")
    after = metrics_shown(uri, out)
    assert {name: after[name] for name in before} == before
    append_to = tmp_path / "warehouse-0"
    append(append_to, "message", [committed(200, "11:00:00", "11:00:01")])
    assert metrics_shown(uri, out)[commits] == before[commits] + 1
    again = metrics_shown(uri, out)
    assert again[commits] == before[commits] + 1
    assert again[first_bucket] == before[first_bucket] + 1
    assert again[key("rocketmq_commit_messages_total", **NODE, topic="U")] == 1
    assert metrics_shown(uri)[commits] == 3  # without the earlier text they count what there is


def test_a_carriage_return_in_a_label_is_carried_on_like_any_other_character(warehouse, txmq, tmp_path):
    odd = {**committed(1, "11:00:00", "11:00:01"), "topic": "a\rb"}
    uri, out = warehouse({"message": [odd]}), tmp_path / "x.prom"
    for _ in range(2):
        status, _, err = txmq("--warehouse", uri, "metrics", "--out", str(out))
        assert status == 0, err


def test_what_is_carried_on_is_told_for_each_bucket_so_that_buckets_stay_cumulative():
    def histogram(*counts: float) -> str:
        lines = [f'h_bucket{{le="{bound}"}} {count}\n' for bound, count in zip(("5.0", "+Inf"), counts, strict=True)]
        return "# TYPE h histogram\n" + "".join(lines) + f"h_count {counts[-1]}\nh_sum 50\n"

    first, last, total = Piece("h", (), "5.0"), Piece("h", (), "+Inf"), Piece("h", (), "sum")
    metrics_shown, carried = carried_over({first: 20.0, last: 0.0, total: 10.0}, histogram(10.0, 10.0))
    assert metrics_shown == {first: 20.0, last: 0.0, total: 50.0}
    assert carried == {total: 40.0}
    metrics_shown, carried = carried_over(
        {first: 1.0, last: 4.0, total: 60.0}, histogram(10.0, 13.0) + notes({first: 2.0})
    )
    assert metrics_shown == {first: 10.0, last: 4.0, total: 60.0}
    assert carried == {first: 9.0}


def test_a_file_that_cannot_be_written_or_was_no_metrics_says_what_to_do(warehouse, txmq, tmp_path):
    uri = warehouse({})
    status, _, err = txmq("--warehouse", uri, "metrics", "--out", str(tmp_path / "no" / "x.prom"))
    assert (status, err.startswith("error USAGE: --out ")) == (2, True)
    strange = tmp_path / "x.prom"
    strange.write_text("what {is this\n", encoding="utf-8")
    status, _, err = txmq("--warehouse", uri, "metrics", "--out", str(strange))
    assert (status, strange.read_text(encoding="utf-8")) == (3, "what {is this\n")
    assert err.startswith(f"error INPUT_UNREADABLE: {strange} holds no metrics whose counters could be carried on")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["x.prom"]


def told_names() -> set[str]:
    endings = {"gauge": ("",), "counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    return {f.name + ending for f in FAMILIES for ending in endings[f.kind]}


def test_alert_rules_and_dashboard_use_metrics_and_labels_that_are_told():
    rules = yaml.safe_load((conf_dir() / "monitoring" / "alert-rules.yaml").read_text(encoding="utf-8"))
    board = json.loads((conf_dir() / "monitoring" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert (len(alerts), len(drawn)) == (12, 25)
    labels = {label for family in FAMILIES for label in family.labels} | {"le"}
    for expression in (*alerts, *drawn):
        used = set(re.findall(r"\b(?:rocketmq|txmq)_\w+", expression))
        assert used
        assert used <= told_names(), expression
        assert set(re.findall(r"(\w+)=~?\"", expression)) <= labels, expression
    used = set(re.findall(r"\b(?:rocketmq|txmq)_\w+", " ".join(drawn)))
    assert {f.name for f in FAMILIES if f.name.startswith("rocketmq_")} <= {
        re.sub("_(total|bucket)$", "", n) for n in used
    }


def test_every_panel_of_the_dashboard_has_a_title_a_unit_and_its_own_place():
    board = json.loads((conf_dir() / "monitoring" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken
        assert grid["x"] + grid["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
