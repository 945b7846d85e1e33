"""Read views over small Delta tables: what is shown, filtered, joined and in which order."""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from moment import NOW_TEXT
from views.conftest import PLAIN_DEFAULTS, append, with_column_added

from txmq_lib.config.table_specs import table_specs

TEN = "2026-11-21T10:00:00.000Z"
ELEVEN = "2026-11-21T11:00:00.000Z"
TWELVE = "2026-11-21T12:00:00.000Z"


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_json_shows_every_column_in_table_order_with_times_bytes_maps_and_nulls_as_promised(warehouse, txmq):
    uri = warehouse(
        {
            "message": [
                {
                    "broker_name": "a",
                    "topic": "T",
                    "queue_id": 3,
                    "queue_offset": 9,
                    "commit_log_offset": None,
                    "born_timestamp": "2026-11-21T10:30:51.730999Z",
                    "store_timestamp": TEN,
                    "body": b"\x00\xff",
                    "properties": [("KEYS", "k \u00e9"), ("x", "1")],
                    "transaction_id": "C0",
                    "producer_group": "G",
                }
            ]
        }
    )
    status, out, err = txmq("--warehouse", uri, "messages", "--format", "json")
    assert (status, err) == (0, "")
    (message,) = objects(out)
    assert list(message)[:5] == ["broker_name", "topic", "queue_id", "queue_offset", "commit_log_offset"]
    assert list(message)[-1] == "landed_pass"
    assert message["born_timestamp"] == "2026-11-21T10:30:51.730Z"
    assert message["body"] == "AP8="
    assert message["properties"] == {"KEYS": "k é", "x": "1"}
    assert message["commit_log_offset"] is None
    assert (message["queue_id"], message["producer_group"]) == (3, "G")


def test_csv_has_a_header_nested_values_as_json_and_nothing_for_null(warehouse, txmq):
    uri = warehouse({"pending_half": [{"transaction_id": 'C0 "q", x', "half_offsets": [0, 376]}]})
    status, out, _ = txmq("--warehouse", uri, "pending", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert status == 0
    assert row["transaction_id"] == 'C0 "q", x'
    assert row["half_offsets"] == "[0, 376]"
    assert row["next_check_timestamp"] == ""


# why, next offset, one past the newest message, lowest kept, lag, state (R101)
PLACES = [
    ("nothing left", 10, 10, 0, 0, "ok"),
    ("one left", 9, 10, 0, 1, "ok"),
    ("one beyond the end", 11, 10, 0, 0, "beyond_end"),
    ("the oldest kept", 3, 10, 3, 7, "ok"),
    ("one below the oldest", 2, 10, 3, 8, "below_oldest"),
    ("oldest not known", 2, 10, None, 8, "ok"),
    ("the queue has not landed", 2, None, None, None, "unknown"),
    ("an empty queue", 0, 0, 0, 0, "ok"),
    ("the longest queue there is", 0, 2**63 - 1, None, 2**63 - 1, "ok"),
    ("the largest lie there is", 2**63 - 1, 0, None, 0, "beyond_end"),
    ("beyond an end below the oldest", 4, 3, 5, 0, "beyond_end"),
]  # fmt: skip


def test_lag_is_never_negative_and_offsets_off_the_queue_are_states_of_their_own(warehouse, txmq):
    place = {"broker_name": "a", "topic": "T"}
    reports = [
        {**place, "consumer_group": "CG", "queue_id": queue_id, "next_offset": next_offset}
        for queue_id, (_, next_offset, *_) in enumerate(PLACES)
    ]
    frontiers = [
        {**place, "queue_id": queue_id, "next_offset": highest, "lowest_kept_offset": lowest}
        for queue_id, (_, _, highest, lowest, *_) in enumerate(PLACES)
        if highest is not None
    ]
    elsewhere = {"broker_name": "b", "topic": "T", "queue_id": 6, "next_offset": 99}
    uri = warehouse({"consumer_offset": reports, "landing_frontier": [*frontiers, elsewhere]})
    _, out, _ = txmq("--warehouse", uri, "offsets", "--format", "json")
    columns = ("next_offset", "highest_offset", "lowest_kept_offset", "lag", "state")
    found = {row["queue_id"]: tuple(row[name] for name in columns) for row in objects(out)}
    assert {why: found[queue_id] for queue_id, (why, *_) in enumerate(PLACES)} == {
        why: (*rest,) for why, *rest in PLACES
    }
    _, out, _ = txmq("offsets", "--format", "json", "--state", "BELOW_OLDEST", "--state", "unknown", "--warehouse", uri)
    assert [row["queue_id"] for row in objects(out)] == [4, 6]
    _, out, _ = txmq("offsets", "--format", "json", "--state", "ok", "--group", "OTHER", "--warehouse", uri)
    assert out == ""


def test_landings_are_told_once_each_with_broker_and_source(warehouse, txmq):
    def row(number: int, state: str, arguments: dict[str, Any], job: str = "land") -> dict[str, Any]:
        return {"job": job, "pass_number": number, "state": state, "arguments": json.dumps(arguments)}

    files = {"kind": "half", "broker_name": "oralce-a", "files": [{"path": "/in/a.jsonl"}, {"path": "/in/b.jsonl"}]}
    store = {"kind": "store", "broker_name": "b", "path": "/data/store"}
    uri = warehouse(
        {
            "pass": [
                row(1, "started", files),
                row(1, "committed", files),
                row(2, "abandoned", store),
                row(2, "started", store),
                row(3, "started", store),
                row(3, "committed", {}, job="audit"),
            ]
        }
    )
    _, out, _ = txmq("--warehouse", uri, "landed", "--format", "json")
    shown = [[row[name] for name in ("pass_number", "state", "kind", "broker_name", "source")] for row in objects(out)]
    assert shown == [
        [3, "started", "store", "b", "/data/store"],
        [2, "abandoned", "store", "b", "/data/store"],
        [1, "committed", "half", "oralce-a", "/in/a.jsonl /in/b.jsonl"],
    ]
    _, out, _ = txmq("--warehouse", uri, "landed", "--format", "json", "--broker", "oralce-a")
    assert [row["pass_number"] for row in objects(out)] == [1]


def test_a_landing_is_as_old_as_the_row_that_ended_it(warehouse, txmq):
    landing = {"job": "land", "pass_number": 1, "arguments": "{}"}
    uri = warehouse({"pass": [{**landing, "state": "started", "wall_timestamp": "2026-11-21T10:00:00Z"}]})
    append(Path(uri), "pass", [{**landing, "state": "committed", "wall_timestamp": "2026-11-21T10:05:00Z"}])
    for now, states in (("10:12", []), ("10:16", ["committed"])):
        _, out, _ = txmq("--warehouse", uri, "landed", "--format", "json", "--older-than", "10m", "--now",
                         f"2026-11-21T{now}:00Z")  # fmt: skip
        assert [row["state"] for row in objects(out)] == states


def test_rewinds_inside_an_array_of_structs_have_iso_times(warehouse, txmq):
    when = datetime(2026, 11, 21, 10, 30, 51, 730_000, tzinfo=UTC)
    rewind = {"ts": when, "from_offset": 107, "to_offset": 27, "client_id": None}
    uri = warehouse({"consumer_offset": [{"rewinds": [rewind]}]})
    _, out, _ = txmq("--warehouse", uri, "offsets", "--format", "json")
    assert objects(out)[0]["rewinds"] == [
        {"ts": "2026-11-21T10:30:51.730Z", "from_offset": 107, "to_offset": 27, "client_id": None}
    ]


def test_an_end_that_was_held_and_then_judged_is_shown_once_as_judged(warehouse, txmq):
    def outcome(order: int, outcome: str, *, held: bool, half_id: str | None, end_id: str) -> dict[str, Any]:
        return {
            "broker_name": "a",
            "origin": "landed",
            "landed_pass": 1,
            "landing_order": order,
            "outcome": outcome,
            "is_held": held,
            "transaction_id": half_id,
            "end_transaction_id": end_id,
            "ts": TEN,
        }

    uri = warehouse(
        {
            "end_outcome": [
                outcome(1, "held", held=True, half_id=None, end_id="C1"),
                outcome(1, "accepted", held=False, half_id="C1", end_id="C1"),
                outcome(2, "held", held=True, half_id=None, end_id="C2"),
                outcome(3, "refused", held=False, half_id=None, end_id="C3"),
            ]
        }
    )

    def shown(*arguments: str) -> list[tuple[int, str]]:
        _, out, _ = txmq("--warehouse", uri, "ends", "--format", "json", *arguments)
        return [(row["landing_order"], row["outcome"]) for row in objects(out)]

    assert shown() == [(1, "accepted"), (2, "held"), (3, "refused")]
    assert shown("--state", "held") == [(2, "held")]
    assert shown("--transaction-id", "C1") == [(1, "accepted")]
    assert shown("--transaction-id", "C3") == [(3, "refused")]


def test_filters_are_taken_literally_and_must_all_hold(warehouse, txmq):
    ids = ["O'Brien", "a\\", "x' OR 1=1 --", "new\nline", "nul\x00l", '"q"']
    rows = [{"broker_name": "a", "transaction_id": name, "producer_group": "G", "real_topic": "T"} for name in ids]
    uri = warehouse({"verdict": [*rows, {"broker_name": "b", "transaction_id": "O'Brien", "verdict": "PENDING"}]})

    def ids_of(*arguments: str) -> list[tuple[str, str]]:
        _, out, _ = txmq("--warehouse", uri, "verdicts", "--format", "json", *arguments)
        return [(row["broker_name"], row["transaction_id"]) for row in objects(out)]

    for name in ids[1:]:
        assert ids_of("--transaction-id", name) == [("a", name)]
    assert ids_of("--transaction-id", "O'Brien") == [("a", "O'Brien"), ("b", "O'Brien")]
    assert ids_of("--transaction-id", "O'Brien", "--broker", "b") == [("b", "O'Brien")]
    assert ids_of("--transaction-id", "a\\", "--transaction-id", '"q"', "--group", "G", "--topic", "T") == [
        ("a", '"q"'),
        ("a", "a\\"),
    ]
    assert ids_of("--state", "pending") == [("b", "O'Brien")]


def test_rows_come_in_one_order_the_newest_first_and_pending_the_oldest_first(warehouse, txmq):
    uri = warehouse(
        {
            "pending_half": [
                {"transaction_id": "C2", "first_store_timestamp": TEN, "producer_group": None},
                {"transaction_id": "C1", "first_store_timestamp": ELEVEN},
                {"transaction_id": "C2", "first_store_timestamp": TEN, "producer_group": "G"},
            ],
            "verdict": [
                {"transaction_id": "C1", "last_timestamp": TEN},
                {"transaction_id": "C3", "last_timestamp": TWELVE},
                {"transaction_id": "C2", "last_timestamp": TWELVE},
            ],
        }
    )
    _, out, _ = txmq("--warehouse", uri, "pending", "--format", "json")
    assert [(row["transaction_id"], row["producer_group"]) for row in objects(out)] == [
        ("C2", "G"),
        ("C2", None),
        ("C1", None),
    ]
    _, out, _ = txmq("--warehouse", uri, "verdicts", "--format", "json", "--limit", "2")
    assert [row["transaction_id"] for row in objects(out)] == ["C2", "C3"]


def test_a_piped_table_keeps_a_row_on_a_line_with_whole_ids_and_says_how_many_more(warehouse, txmq):
    long_id = "C000020246654E0E2F2A6940C2510000" * 3
    rows = [
        {"broker_name": "a", "transaction_id": f"{long_id}{n:03}", "producer_group": "G\x1b[31m"} for n in range(51)
    ]
    uri = warehouse({"pending_half": rows})
    status, out, err = txmq("--warehouse", uri, "pending")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 51)
    assert lines[0].split()[:3] == ["transaction_id", "check_times", "next_check_timestamp"]
    assert lines[1].split()[:4] == [f"{long_id}000", "0", "-", "G\\x1b[31m"]
    assert err == "1 more; --limit 51 or --format json shows them\n"
    _, out, err = txmq("--warehouse", uri, "pending", "--limit", "51")
    assert (len(out.splitlines()), err) == (52, "")


def test_no_rows_are_said_on_stderr_and_are_no_failure(warehouse, txmq):
    uri = warehouse({})
    assert txmq("--warehouse", uri, "given-up") == (0, "", "no rows in given-up\n")
    assert txmq("--warehouse", uri, "given-up", "--format", "json") == (0, "", "no rows in given-up\n")
    elsewhere = "txmq verdicts --state stuck lists what was given up, too"
    assert txmq("--warehouse", uri, "pending") == (0, "", f"no rows in pending; {elsewhere}\n")


@pytest.mark.parametrize("name", ["with space", "it's", "a=b", "100%", "star*[x]?", "ünï"])
def test_a_warehouse_may_lie_in_a_directory_of_any_name(warehouse, txmq, tmp_path, name):
    uri = warehouse({"verdict": [{"transaction_id": "A", "is_settled": True}, {"transaction_id": "B"}]})
    moved = Path(uri).rename(tmp_path / name)
    status, out, err = txmq("--warehouse", str(moved), "verdicts", "--format", "json", "--sort", "transaction_id")
    assert (status, err) == (0, "")
    assert [(row["transaction_id"], row["is_settled"]) for row in objects(out)] == [("A", True), ("B", False)]


def test_a_missing_warehouse_and_an_unknown_state_end_with_status_2_and_what_to_do(tmp_path, txmq):
    nowhere = str(tmp_path / "nowhere")
    for command in (("pending",), ("offsets",), ("trace", "C0")):
        status, out, err = txmq("--warehouse", nowhere, *command)
        assert (status, out) == (2, "")
        assert err.startswith(
            f"error TABLE_MISSING: no warehouse at {nowhere}; name yours by --conf or --warehouse, or "
        )
        assert err.count("\n") == 1
    status, _, err = txmq("--warehouse", nowhere, "ends", "--state", "acepted")
    assert status == 2
    assert err == (
        "error USAGE: ends has no state acepted; there are accepted, repeated, contradicting, refused, held\n"
    )


def test_a_table_that_lost_a_file_is_an_input_that_cannot_be_read(warehouse, txmq):
    uri = warehouse({"pending_half": [{"transaction_id": "C0"}]})
    for file in Path(uri, "pending_half").glob("*.parquet"):
        file.unlink()
    status, out, err = txmq("--warehouse", uri, "pending")
    assert (status, out) == (3, "")
    assert err.startswith(f"error INPUT_UNREADABLE: tables under {uri} cannot be read: ")
    assert err.count("\n") == 1


def test_answers_and_decisions_are_found_by_what_was_said_and_what_was_done(warehouse, txmq):
    uri = warehouse(
        {
            "check_answer": [
                {"transaction_id": "A", "answer": "commit", "asked_for": "check", "answered_timestamp": TEN},
                {"transaction_id": "B", "answer": "commit", "asked_for": "given_up", "answered_timestamp": ELEVEN},
                {"transaction_id": "C", "reason": "UNREACHABLE", "asked_for": "check", "answered_timestamp": TWELVE},
            ],
            "manual_decision": [
                {"transaction_id": "A", "action": "resume", "decided_timestamp": TEN},
                {"transaction_id": "B", "action": "commit", "decided_timestamp": ELEVEN},
            ],
        }
    )

    def ids(*arguments: str) -> list[str]:
        status, out, _ = txmq("--warehouse", uri, *arguments, "--format", "json")
        assert status == 0
        return [row["transaction_id"] for row in objects(out)]

    assert ids("answers") == ["C", "B", "A"]
    assert ids("answers", "--state", "commit") == ["B", "A"]
    assert ids("answers", "--state", "commit", "--asked-for", "given_up") == ["B"]
    assert ids("answers", "--reason", "UNREACHABLE") == ["C"]
    assert ids("decisions") == ["B", "A"]
    assert ids("decisions", "--state", "resume") == ["A"]


def test_a_request_to_a_broker_is_shown_with_what_became_of_it(warehouse, txmq):
    request = {"action": "commit", "requested_timestamp": TEN, "requested_for": "settle", "commit_log_offset": 7}
    uri = warehouse(
        {
            "broker_request": [
                {**request, "transaction_id": "A", "state": "sending", "pass_number": 1},
                {**request, "transaction_id": "A", "state": "accepted", "code": 0, "pass_number": 1},
                {**request, "transaction_id": "B", "state": "sending", "pass_number": 1},
                {**request, "transaction_id": "C", "state": "sending", "pass_number": 2},
                {**request, "transaction_id": "C", "state": "not_sent", "remark": "down", "pass_number": 2},
                {**request, "transaction_id": "C", "state": "sending", "pass_number": 3},
            ],
        }
    )

    def shown(*arguments: str) -> list[tuple[str, str, int]]:
        status, out, _ = txmq("--warehouse", uri, "sent", *arguments, "--format", "json")
        assert status == 0
        return sorted((row["transaction_id"], row["state"], row["pass_number"]) for row in objects(out))

    assert shown() == [("A", "accepted", 1), ("B", "sending", 1), ("C", "not_sent", 2), ("C", "sending", 3)]
    assert shown("--state", "sending") == [("B", "sending", 1), ("C", "sending", 3)]
    assert shown("--transaction-id", "A") == [("A", "accepted", 1)]
    status, out, _ = txmq("--warehouse", uri, "trace", "A")
    assert status == 0
    assert "request_accepted" in out
    assert "request_sending" not in out
    assert "accepted (code 0)" in out


@pytest.mark.parametrize("new", [[], [{"transaction_id": "N", "remark": "told", "landing_order": 9}]])
def test_a_column_that_was_added_is_null_in_files_of_before(warehouse, txmq, new):
    uri = warehouse({})
    with_column_added(Path(uri), "end_outcome", "remark", [{"transaction_id": "O", "landing_order": 1}])
    if new:
        append(Path(uri), "end_outcome", new)
    code, out, err = txmq("--warehouse", uri, "ends", "--format", "json")
    assert (code, err) == (0, "")
    remarks = {row["transaction_id"]: row["remark"] for row in objects(out)}
    assert remarks == {"O": None, **{row["transaction_id"]: row["remark"] for row in new}}


def test_a_warehouse_of_before_is_read_as_it_is(tmp_path, empty_tables, txmq):
    uri = tmp_path / "before"
    shutil.copytree(empty_tables, uri)
    shutil.rmtree(uri / "orphan")
    shutil.rmtree(uri / "verdict")
    spec = table_specs()["verdict"]
    fields = [field for field in spec.to_json()["fields"] if field["name"] != "reason"]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    DeltaTable.create(uri / "verdict", schema, partition_by=list(spec.partition_by))
    row = {field["name"]: PLAIN_DEFAULTS[field["type"]] for field in fields} | {
        "transaction_id": "T",
        "verdict": "DUPLICATED",
    }
    write_deltalake(uri / "verdict", pa.Table.from_pylist([row], pa.schema(schema.to_arrow())), mode="append")
    for command in (["verdicts", "--format", "json"], ["trace", "T"], ["status", "--now", NOW_TEXT]):
        code, out, err = txmq("--warehouse", str(uri), *command)
        assert (code, err) == (0, ""), command
        assert "DUPLICATED" in out or "visible more than once" in out
