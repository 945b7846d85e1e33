"""Manual decisions over whole passes: settle and resume, the plan first, exactly once, with who, when and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from house import House, wall_clock
from moment import NOW, NOW_MS
from page_commands import on_page
from pyspark.sql import SparkSession
from resolving import decided, half, verdicts

from txmq_lib.cli import main
from txmq_lib.cli.run.decisions import plan_of
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import UsageError
from txmq_lib.pipeline.decision_request import DecisionRequest
from txmq_lib.pipeline.decisions import decide
from txmq_lib.views.advice import advice
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.trace import trace

PAGE_NOW = "2026-11-21T12:20:00Z"
SETTLE = (
    'txmq --conf recover.yaml settle C000020246654E0E2F2A6940C2510000 --commit --reason "ticket 4711: paid" '
    f"--now {PAGE_NOW}"
)
RESUME = f'txmq --conf recover.yaml resume --group GID_GONE --reason "orders database was down" --now {PAGE_NOW}'
SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=1")


def after(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def settled(house: House, transaction_id: str, decision: str, now=NOW, **options: Any):
    request = DecisionRequest((transaction_id,), decision=decision, reason="ticket 7", decided_by="me@here", **options)
    return decide(house.warehouse, house.settings, request, now=now, wall_clock=wall_clock)


def resumed(house: House, now=NOW, **options: Any):
    return decide(
        house.warehouse,
        house.settings,
        DecisionRequest(decided_by="me@here", **options),
        now=now,
        wall_clock=wall_clock,
    )


def plan(house: House, request: DecisionRequest, now=NOW) -> dict[str, tuple[str, str]]:
    settings = house.settings.model_copy(update={"warehouse": house.warehouse.uri})
    rows = plan_of(settings, request, now)
    return {row["transaction_id"]: (row["verdict"], row["action"]) for row in rows}


@pytest.fixture(scope="module")
def given_up_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """T0 and T1 of GID_A and T2 of GID_B, given up after one check; T3 asked, pending."""
    place = tmp_path_factory.mktemp("given_up")
    house = House(Warehouse(spark, str(place / "w")), place, Settings.load(assignments=[*SETTINGS]))
    house.land_rows("half", [half(0), half(1), half(2, "GID_B")])
    house.reconcile()
    house.land_rows("half", [half(3)])
    assert house.reconcile(after(3)).counts["trans_check_max_time"] == 3
    return house


@pytest.fixture
def given_up(given_up_once: House, copied: Callable[[House, str], House], tmp_path: Path) -> House:
    """A copy of it for one test."""
    return copied(given_up_once, f"w-{tmp_path.name}")


def advised(house: House, transaction_id: str) -> tuple[str | None, str]:
    """Why a transaction is as it is, and what to do first, as `trace` tells it."""
    (story,) = trace(WarehouseReader(house.warehouse.uri), transaction_id)
    advice_given = advice(story.events)
    assert advice_given is not None
    return advice_given.why, advice_given.to_do[0]


@pytest.mark.long
def test_settle_shows_its_plan_then_decides_once_and_reconcile_applies_it(given_up):
    house = given_up
    assert plan(house, DecisionRequest(("T3",), decision="rollback")) == {"T3": ("PENDING", "rollback")}
    assert plan(house, DecisionRequest(("T0",), decision="commit")) == {"T0": ("DISCARDED", "commit")}
    assert (house.rows("manual_decision"), house.rows("end_transaction")) == ([], [])
    assert verdicts(house)["T0"] == "DISCARDED"
    settled(house, "T3", "rollback", after(4))
    assert settled(house, "T0", "commit", after(4)).counts == {"manual_decision": 1, "end_transaction": 1}
    assert advised(house, "T0") == ("commit recorded", "txmq reconcile applies it, txmq audit tells it")
    assert settled(house, "T0", "commit", after(5)).counts == {"idle": 1}
    with pytest.raises(UsageError, match=r"settled as commit by me@here \(ticket 7\)"):
        settled(house, "T0", "rollback", after(5))
    house.reconcile(after(6))
    assert advised(house, "T0")[1] == "txmq audit gives it anew"
    assert verdicts(house) == {
        "T0": "COMMITTED_AND_DISCARDED",
        "T1": "DISCARDED",
        "T2": "DISCARDED",
        "T3": "ROLLED_BACK",
    }
    assert advised(house, "T0") == (None, "nothing to resend")
    with pytest.raises(UsageError, match="T0 is COMMITTED_AND_DISCARDED already"):
        settled(house, "T0", "commit", after(7))
    with pytest.raises(UsageError, match="no half message of transaction T9 has landed"):
        settled(house, "T9", "commit", after(7))
    rows = {row["transaction_id"]: row for row in house.rows("manual_decision")}
    assert {name: (row["action"], row["reason"], row["decided_by"], row["former_verdict"]) for name, row in rows.items()} == {
        "T3": ("rollback", "ticket 7", "me@here", "PENDING"),
        "T0": ("commit", "ticket 7", "me@here", "DISCARDED"),
    }  # fmt: skip
    assert {end["origin"] for end in house.rows("end_transaction")} == {"manual"}


@pytest.mark.long
def test_the_commands_print_their_plan_and_act_with_apply_only(given_up, capsys, tmp_path):
    house, now = given_up, after(4).isoformat()
    conf = tmp_path / "recover.yaml"
    conf.write_text("role: engine", encoding="utf-8")
    names = {"C000020246654E0E2F2A6940C2510000": "T3", "GID_GONE": "GID_B", "recover.yaml": str(conf), PAGE_NOW: now}

    def txmq(*arguments: str) -> tuple[int, str, str]:
        limits = [part for setting in SETTINGS for part in ("--set", setting)]
        status = main([*limits, "--warehouse", house.warehouse.uri, *arguments, "--now", now])
        output = capsys.readouterr()
        return status, output.out, output.err

    settling = on_page("recover.md", SETTLE, names)
    status, out, err = txmq(*settling, "--format", "json")
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert (status, row["transaction_id"], row["verdict"], row["action"]) == (0, "T3", "PENDING", "commit")
    assert row["born_timestamp"] == "2026-11-21T11:59:00.003Z"
    assert err == "1 commit; nothing was written: --apply does it\n"
    status, out, err = txmq("resume", "--all")
    assert (status, [line.split()[1] for line in out.splitlines()[1:]]) == (0, ["T0", "T1", "T2"])
    assert err == "3 resume; nothing was written: --apply does it\n"
    assert house.rows("manual_decision") == []
    assert txmq(*on_page("recover.md", f"{SETTLE} --apply", names))[0] == 0
    assert txmq(*on_page("recover.md", RESUME, names), "--apply")[0] == 0
    status, out, err = txmq(*settling, "--apply")
    assert (status, "idle 1" in out.splitlines()) == (0, True)
    assert err == "1 settled so before: reconcile applies it\n"
    assert txmq("settle", "T3", "--rollback", "--reason", "never paid", "--apply")[0] == 2
    made = {(row["transaction_id"], row["action"], row["reason"]) for row in house.rows("manual_decision")}
    assert made == {("T3", "commit", "ticket 4711: paid"), ("T2", "resume", "orders database was down")}
    assert all("@" in row["decided_by"] for row in house.rows("manual_decision"))


@pytest.mark.long
def test_settle_passes_the_immunity_and_names_twins_and_ends_that_would_be_refused(open_house):
    house = open_house(*SETTINGS)
    twin = {**half(1), "properties": {**half(1)["properties"], "UNIQ_KEY": "T0"}}
    homeless = half(2)
    del homeless["properties"]["REAL_TOPIC"]
    house.land_rows("half", [half(0), twin, homeless, half(3, CHECK_IMMUNITY_TIME_IN_SECONDS="5")])
    with pytest.raises(UsageError, match=r"2 transactions have the id T0: .*choose by --broker or --born"):
        settled(house, "T0", "commit")
    with pytest.raises(UsageError, match="refused: REAL_TOPIC_MISSING"):
        settled(house, "T2", "commit")
    settled(house, "T0", "commit", born_ms=twin["bornTimestamp"])
    settled(house, "T3", "commit")
    house.reconcile()
    assert decided(house) == {"T0": ["commit accepted"], "T3": ["commit accepted"]}
    born = {row["transaction_id"]: row["prepared_transaction_offset"] for row in house.rows("message")}
    assert born == {"T0": 1000, "T3": 3000}


def end(number: int, code: int, **fields: Any) -> dict[str, Any]:
    """An END_TRANSACTION of a producer, received before NOW."""
    at = NOW_MS - 50_000
    return {
        "ts": at, "producerGroup": "GID_A", "tranStateTableOffset": number, "commitLogOffset": 1000 * number,
        "commitOrRollback": code, "fromTransactionCheck": False, "msgId": f"T{number}", "transactionId": f"T{number}",
        **fields,
    }  # fmt: skip


@pytest.mark.long
def test_settle_reckons_with_ends_that_have_landed_and_are_not_judged_yet(open_house):
    house = open_house(*SETTINGS)
    house.land_rows("half", [half(0), half(1), half(2)])
    house.land_rows("end", [end(0, 12), end(1, 8), end(2, 12, producerGroup="GID_WRONG")])
    with pytest.raises(UsageError, match="would find this end contradicting"):
        settled(house, "T0", "commit")
    with pytest.raises(UsageError, match="would find this end repeated"):
        settled(house, "T1", "commit")
    settled(house, "T2", "commit")
    house.reconcile()
    assert decided(house) == {
        "T0": ["rollback accepted"], "T1": ["commit accepted"], "T2": ["rollback refused", "commit accepted"],
    }  # fmt: skip


@pytest.mark.long
def test_settle_of_one_of_two_halves_at_one_physical_offset_decides_or_refuses(open_house):
    house = open_house(*SETTINGS)
    rebuilt = {**half(1), "commitLogOffset": 0}
    house.land_rows("half", [half(0), rebuilt])
    settled(house, "T1", "commit")
    house.reconcile()
    assert verdicts(house) == {"T0": "PENDING", "T1": "COMMITTED"}


@pytest.mark.long
def test_a_resumed_transaction_is_asked_from_the_start_and_may_be_given_up_again(given_up):
    house = given_up
    assert plan(house, DecisionRequest(groups=("GID_A",))) == {
        "T0": ("DISCARDED", "resume"),
        "T1": ("DISCARDED", "resume"),
    }
    assert plan(house, DecisionRequest()) == {name: ("DISCARDED", "resume") for name in ("T0", "T1", "T2")}
    assert resumed(house, after(4), transaction_ids=("T0",)).counts == {"manual_decision": 1}
    assert verdicts(house)["T0"] == "PENDING"
    assert resumed(house, after(4), transaction_ids=("T0",)).counts == {"idle": 1}
    with pytest.raises(UsageError, match="nothing to resume: T3"):
        resumed(house, after(4), transaction_ids=("T1", "T3"))
    house.reconcile(after(5))
    checks = {row["transaction_id"]: row["check_times"] for row in house.rows("pending_half")}
    assert checks == {"T0": 1, "T3": 1}, "asked again, from the first check on; the others stay given up"
    house.reconcile(after(8))
    found = verdicts(house)
    assert (found["T0"], found["T1"]) == ("DISCARDED", "DISCARDED"), "nobody answered, so it was given up again"
    assert resumed(house, after(9), transaction_ids=("T0",)).counts == {"manual_decision": 1}
    house.reconcile(after(9))
    settled(house, "T0", "commit", after(10))
    house.reconcile(after(11))
    assert verdicts(house)["T0"] == "COMMITTED_AND_DISCARDED"
    assert len(house.rows("message")) == 1
    assert {row["transaction_id"] for row in house.rows("pending_half")} == set()


def test_what_would_be_given_up_again_or_is_a_brokers_is_not_resumed(open_house):
    house = open_house(*SETTINGS, "file_reserved_time=1m", "brokers.audited.role=audit")
    house.land_rows("half", [half(0)])
    house.land_rows("half", [half(1)], broker="audited")
    lost = {**half(1), "topic": "TRANS_CHECK_MAX_TIME_TOPIC", "commitLogOffset": 9000}
    house.land_rows("max-time", [lost], broker="audited")
    assert house.reconcile(after(5)).counts["trans_check_max_time"] == 1
    assert plan(house, DecisionRequest(), after(6)) == {
        "T0": ("DISCARDED", "expired"),
        "T1": ("DISCARDED", "left_to_broker"),
    }
    assert resumed(house, after(6)).counts == {"idle": 1}
    assert house.rows("manual_decision") == []


@pytest.mark.long
def test_decisions_killed_after_any_write_end_as_if_never_killed(given_up, copied):
    for job in (
        lambda house: settled(house, "T3", "commit", after(4)),
        lambda house: resumed(house, after(4), transaction_ids=("T0", "T1")),
    ):
        whole = copied(given_up, f"whole-{job.__code__.co_firstlineno}")
        with whole.writing() as steps:
            job(whole)
        assert steps[1:-1] in (["manual_decision", "end_transaction"], ["manual_decision"])
        for number in range(1, len(steps)):
            house = copied(given_up, f"killed-{job.__code__.co_firstlineno}-{number}")
            with house.killed_after(number):
                job(house)
            assert job(house).counts == {"idle": 1}, "the killed one was carried on, so nothing is left to do"
            for table in ("manual_decision", "end_transaction"):
                assert house.rows(table) == whole.rows(table), (table, number)
