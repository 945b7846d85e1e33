"""A pass killed after any of its writes and run again ends as if never killed; a second one with nothing new is silent."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
import truth
from deltalake import DeltaTable
from deltalake.transaction import AddAction, create_table_with_add_actions
from histories import HALF_TOPIC, message_row
from house import House, failing_once, wall_clock
from moment import NOW
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from truth import CAPTURES

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.log_view import TaggedCommit
from txmq_lib.delta.small_writes import create_table
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InvariantViolation, PassConflict, PassReplayed, SchemaError
from txmq_lib.passes import writer
from txmq_lib.passes.current import Pass
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import next_pass, run_passes
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.reconcile import destinations
from txmq_lib.pipeline.reconcile import writes as reconcile_writes
from txmq_lib.pipeline.reconcile.job import run_reconcile

SETTINGS = (
    "transaction_timeout=2",
    "transaction_check_interval=3",
    "transaction_check_max=0",
    "roll_back_given_up=true",
)


def contents(house: House) -> dict[str, list[str]]:
    """Every row of every table but the pass log, in some fixed order."""
    tables = sorted(house.versions())
    return {table: sorted(str(sorted(row.items(), key=str)) for row in house.rows(table)) for table in tables}


def json_lines(rows: list[dict[str, Any]]) -> str:
    """A file of the landing contract."""
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def landed(open_house) -> House:
    house = open_house(*SETTINGS)
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    far = {"producerGroup": "G", "tranStateTableOffset": 99_000, "commitLogOffset": 99_000_000, "commitOrRollback": 8}
    wrong = {"producerGroup": "nobody", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8}
    moment = int(NOW.timestamp() * 1000)
    house.land_rows("end", [{"ts": moment, **far}, {"ts": moment, **wrong}])
    return house


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_a_reconcile_killed_after_each_of_its_writes_ends_as_if_never_killed(landed, copied, is_small):
    whole = copied(landed, "whole")
    with whole.writing() as steps:
        whole.reconcile()
    assert steps == [
        *("started", "end_outcome", "end_held", "quarantine_end", "message", "trans_check_max_time"),
        *("op_message", "frontier", "committed"),
    ]
    expected = contents(whole)
    assert expected["message"]
    assert expected["trans_check_max_time"]
    killed = copied(landed, "killed")
    for step in steps[:-1]:
        # Each process carries the same pass one write further.
        with killed.killed_after(step):
            killed.reconcile()
    killed.reconcile()
    assert contents(killed) == expected
    before = whole.versions()
    whole.reconcile()
    assert whole.versions() == before


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_a_pass_that_breaks_an_invariant_is_given_up_whole(open_house, monkeypatch, is_small):
    house = open_house(*SETTINGS)
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    held = house.reconcile().counts["ends_held"]
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    before = contents(house)
    with monkeypatch.context() as broken:
        broken.setattr(reconcile_writes, "broken_invariants", one_broken)
        with pytest.raises(InvariantViolation, match="never so"):
            house.reconcile()
    assert contents(house) == before
    states = sorted((row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "reconcile")
    assert states == [(1, "committed"), (1, "started"), (2, "abandoned"), (2, "started")]
    assert house.reconcile().counts["message"] > 0
    assert Counter(row["pass_number"] for row in house.rows("end_outcome"))[3] == held


def test_a_step_that_lost_a_row_writes_nothing(open_house, monkeypatch):
    house = open_house()
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    monkeypatch.setattr(writer, "with_own_arrays", lambda rows: rows.slice(1))
    with pytest.raises(InvariantViolation, match=r"check_request was to get \d+ rows .*; the pass is not committed"):
        house.reconcile()
    assert house.rows("check_request") == []


@pytest.mark.long
@pytest.mark.parametrize("is_small", [False], indirect=True)
@pytest.mark.usefixtures("is_small")
def test_a_row_of_a_half_that_spark_has_not_made_stops_the_pass_and_whoever_carries_it_on(landed, monkeypatch):
    monkeypatch.setattr(destinations, "is_possible", lambda *_: False)
    in_spark = writer._in_spark
    with monkeypatch.context() as loses:
        loses.setattr(writer, "_in_spark", lambda *of: in_spark(*of).limit(1))
        with pytest.raises(InvariantViolation, match=r"trans_check_max_time was to get \d+ rows .*, and 1 were made"):
            landed.reconcile()
    with pytest.raises(InvariantViolation, match=r"trans_check_max_time was to get \d+ rows .*, and 1 were made"):
        landed.reconcile()
    assert landed.rows("op_message") == []


def test_a_table_that_was_made_with_files_in_it_has_their_rows(open_house):
    house = open_house()
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    place = house.warehouse.path("half_message")
    rows, schema = house.warehouse.read("half_message").count(), DeltaTable(place).schema()
    actions = [
        AddAction(path=file["path"], size=file["size_bytes"], partition_values={}, modification_time=0, data_change=True,
                  stats=json.dumps({"numRecords": file["num_records"]}))
        for file in pa.table(DeltaTable(place).get_add_actions(flatten=True)).to_pylist()
    ]  # fmt: skip
    shutil.rmtree(f"{place}/_delta_log")
    create_table_with_add_actions(place, schema, actions, mode="error", partition_by=[])
    rebuilt = Warehouse(house.warehouse.spark, house.warehouse.uri)
    assert (rebuilt.version("half_message"), rebuilt.read("half_message", 0).count()) == (0, rows)


def one_broken(effective: DataFrame, *_: object, **__: object) -> DataFrame:
    """As if a rule were broken."""
    named = {"invariant": F.lit("never so"), "example": F.lit("x")}
    return effective.limit(1).select("broker_name").withColumns(named)


@pytest.mark.long
def test_a_landing_killed_after_each_of_its_writes_ends_as_if_never_killed(open_house, copied):
    empty = open_house("role=audit")
    good = CAPTURES / "restart" / "half.jsonl.gz"
    bad = empty.scratch / "bad.jsonl"
    bad.write_text("{torn\n", encoding="utf-8")
    whole = copied(empty, "whole")
    with whole.writing() as steps:
        whole.land("half", good, bad)
    assert steps == ["started", "broker", "half", "quarantine_half", "frontier", "committed"]
    expected = contents(whole)
    for number, step in enumerate(steps[:-1], start=1):
        house = copied(empty, f"killed-{number}")
        with house.killed_after(number):
            house.land("half", good, bad)
        house.land("half", good, bad)
        assert contents(house) == expected, f"killed after {step}"


def test_a_killed_audit_is_carried_on_with_its_own_now(open_house, copied):
    house = open_house("role=audit")
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    with house.killed_after("started"):
        house.audit()
    house.audit(NOW + timedelta(hours=1))
    passes = {(row["pass_number"], row["state"]): row["now"] for row in house.rows("pass") if row["job"] == "audit"}
    # Its own pass then had nothing to do.
    assert sorted(passes) == [(1, "committed"), (1, "started")]
    assert passes[(1, "started")] == passes[(1, "committed")] != NOW + timedelta(hours=1)
    assert {row["verdict"] for row in house.rows("verdict")} == {"PENDING"}


def test_a_pass_of_another_process_made_while_arguments_are_sought_is_no_reason_to_begin_again(open_house):
    house = open_house("role=audit")
    other = replace(house, warehouse=Warehouse(house.warehouse.spark, house.warehouse.uri))
    landed: list[int] = []

    def arguments() -> dict[str, str]:
        landed.append(other.land("half", CAPTURES / "restart" / "half.jsonl.gz").number)
        return {}

    job = job_of_steps("land", lambda current: current.commit())
    report = run_passes(
        house.warehouse, job, now=NOW, settings=house.settings, wall_clock=wall_clock, arguments=arguments
    )
    assert (landed, report.number) == ([1], 2)


def test_a_landing_given_up_by_another_process_writes_nothing_more(open_house):
    house = open_house("role=audit")
    half = CAPTURES / "restart" / "half.jsonl.gz"

    def give_up(table: str, step: str) -> None:
        if step == "started":
            mine = next_pass(house.warehouse, "land", now=NOW, arguments={}, settings=house.settings,
                             wall_clock=wall_clock)  # fmt: skip
            mine.abandon()

    with house.on_write(give_up), pytest.raises(PassConflict, match="abandoned by another process"):
        house.land("half", half)
    assert not house.rows("half_message")
    house.land("half", half)
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_a_write_that_landed_and_failed_behind_its_commit_is_carried_on(landed, monkeypatch, is_small):
    landed_commit = Pass._landed_commit

    def failing(self: Pass, table: str, step: str) -> TaggedCommit | None:
        commit = landed_commit(self, table, step)
        if table == "end_outcome" and commit is not None:
            raise OSError("no space left for a checkpoint")
        return commit

    monkeypatch.setattr(Pass, "_landed_commit", failing)
    with pytest.raises(OSError, match="no space left"):
        landed.reconcile()
    monkeypatch.setattr(Pass, "_landed_commit", landed_commit)
    landed.reconcile()
    accepted = sum(row["outcome"] == "accepted" and row["decision"] == "commit" for row in landed.rows("end_outcome"))
    assert len(landed.rows("message")) == accepted > 0


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_a_plan_that_another_process_carries_on_is_not_given_up_by_its_own(landed, monkeypatch, is_small):
    write, is_planned, is_writing = Pass._write_through_conflicts, Event(), Event()
    failures: list[Exception] = []

    def overtaken(self: Pass, *rest: Any) -> None:
        if self.is_own:
            is_planned.set()
            is_writing.wait(120)
            raise OSError("no space left")
        is_writing.set()
        own.join()  # fails, and has its say, while this one writes
        write(self, *rest)

    def own_process() -> None:
        try:
            landed.reconcile()
        except OSError as failure:
            failures.append(failure)

    own = Thread(target=own_process)
    monkeypatch.setattr(Pass, "_write_through_conflicts", overtaken)
    own.start()
    assert is_planned.wait(120)
    landed.reconcile()
    monkeypatch.setattr(Pass, "_write_through_conflicts", write)
    assert len(failures) == 1
    landed.reconcile()
    accepted = sum(row["outcome"] == "accepted" and row["decision"] == "commit" for row in landed.rows("end_outcome"))
    assert len(landed.rows("message")) == accepted > 0


def test_a_plan_given_up_by_its_own_process_is_carried_on_by_nobody(landed, monkeypatch):
    def dying(self: Pass) -> None:
        raise KeyboardInterrupt  # between its two words

    with monkeypatch.context() as broken:
        broken.setattr(Pass, "_write_through_conflicts", failing_once())
        broken.setattr(Pass, "abandon", dying)
        with pytest.raises(KeyboardInterrupt):
            landed.reconcile()
    landed.reconcile()
    states = sorted((row["pass_number"], row["state"]) for row in landed.rows("pass") if row["job"] == "reconcile")
    assert states == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    assert landed.rows("message")


def test_halves_made_by_a_landing_that_was_given_up_keep_their_offsets(open_house):
    house = open_house()
    prepared = [
        message_row(
            "TopicA", queue_offset=0, place=1_000 * number, born_ms=0, stored_ms=0, body="", sys_flag=4,
            properties={"UNIQ_KEY": f"T{number}", "PGROUP": "G", "TRAN_MSG": "true"},
        )
        for number in range(3)
    ]  # fmt: skip
    file = house.scratch / "half.jsonl"
    file.write_text(json_lines(prepared[:2]), encoding="utf-8")
    with house.killed_after("prepared"):
        house.land("half", file)
    file.unlink()
    house.land_rows("half", prepared[2:])
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0, 1, 2]


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_two_halves_at_one_place_are_both_committed(open_house, is_small):
    house = open_house()
    halves = [
        message_row(
            HALF_TOPIC, queue_offset=offset, place=500, born_ms=0, stored_ms=0, body=f"{offset}",
            properties={"UNIQ_KEY": f"T{offset}", "PGROUP": "G", "REAL_TOPIC": "TopicA", "REAL_QID": "0"},
        )
        for offset in (1, 2)
    ]  # fmt: skip
    house.land_rows("half", halves)
    moment = int(NOW.timestamp() * 1000)
    end = {"ts": moment, "producerGroup": "G", "commitLogOffset": 500, "commitOrRollback": 8}
    house.land_rows("end", [{**end, "tranStateTableOffset": offset} for offset in (1, 2)])
    house.reconcile()
    assert sorted(row["transaction_id"] for row in house.rows("message")) == ["T1", "T2"]
    assert house.rows("pending_half") == []


def test_a_landing_given_up_while_it_writes_lands_nothing_twice(open_house, monkeypatch):
    house = open_house("role=audit")
    halves = [
        message_row(HALF_TOPIC, queue_offset=place, place=place, born_ms=0, stored_ms=0, body="",
                    properties={"UNIQ_KEY": f"T{place}", "PGROUP": "G"})
        for place in range(5)
    ]  # fmt: skip
    file = house.scratch / "half.jsonl"
    file.write_text(json_lines(halves[:3]), encoding="utf-8")
    write = Pass._write_through_conflicts

    def overtaken(self: Pass, table: str, step: str, *rest: Any) -> None:
        if self.is_own and (self.number, step) == (1, "half"):
            file.write_text(json_lines(halves), encoding="utf-8")
            house.land("half", file)  # the other process: finds the file changed
        write(self, table, step, *rest)

    monkeypatch.setattr(Pass, "_write_through_conflicts", overtaken)
    with pytest.raises(PassConflict, match="abandoned by another process"):
        house.land("half", file)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_back", [False, True])
def test_whoever_is_given_up_half_way_tells_nothing_of_what_it_could_not_land(open_house, monkeypatch, is_back):
    house = open_house("role=audit")
    halves = [
        message_row(HALF_TOPIC, queue_offset=place, place=place, born_ms=0, stored_ms=0, body="",
                    properties={"UNIQ_KEY": f"T{place}", "PGROUP": "G"})
        for place in range(5)
    ]  # fmt: skip
    file, before = house.scratch / "half.jsonl", house.scratch / "before"
    file.write_text(json_lines(halves[:3]), encoding="utf-8")
    shutil.copy2(file, before)
    write = Pass._write_through_conflicts

    def overtaken(self: Pass, table: str, step: str, *rest: Any) -> None:
        if self.is_own and (self.number, step) == (1, "half"):
            file.write_text(json_lines(halves), encoding="utf-8")
            with house.killed_after("half"):
                house.land("half", file)  # the other process: finds the file changed, takes the first number, dies
        write(self, table, step, *rest)

    monkeypatch.setattr(Pass, "_write_through_conflicts", overtaken)
    with pytest.raises(PassConflict, match="abandoned by another process"):
        house.land("half", file)
    assert house.rows("half_message") == house.rows("landing_frontier") == []
    if is_back:
        shutil.copy2(before, file)
    house.land("half", file)
    there = 3 if is_back else 5
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == list(range(there))
    assert [row["next_offset"] for row in house.rows("landing_frontier")] == [there]
    states = {(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "land"}
    assert states >= {(1, "abandoned"), (2, "committed")}
    assert (1, "committed") not in states


def test_a_landing_whose_file_is_gone_is_given_up_and_the_next_one_goes_on(open_house):
    house = open_house("role=audit")
    gone = house.scratch / "gone.jsonl"
    gone.write_text("{torn\n", encoding="utf-8")
    with house.killed_after("started"):
        house.land("half", gone)
    gone.unlink()
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    states = [(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "land"]
    assert sorted(states) == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_pass_number_that_a_table_knows_from_another_plan_is_refused_not_skipped(open_house):
    house = open_house("role=audit")
    before = house.scratch / "pass-before"
    shutil.copytree(Path(house.warehouse.uri, "pass"), before)
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    # The pass log alone comes back from a backup: its next number is one that half_message has seen.
    shutil.rmtree(Path(house.warehouse.uri, "pass"))
    shutil.copytree(before, Path(house.warehouse.uri, "pass"))
    house.warehouse.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    versions = house.versions()
    for _ in range(2):
        with pytest.raises(PassReplayed, match="land pass 1: half_message holds step half"):
            house.land("half", CAPTURES / "basic" / "half.jsonl.gz")
    assert house.versions() == versions


def test_a_table_that_is_older_than_what_a_pass_has_seen_of_it_is_refused(open_house):
    house = open_house("role=audit")
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    stored, before = Path(house.warehouse.uri, "half_message"), house.scratch / "half-before"
    shutil.copytree(stored, before)
    house.land("half", CAPTURES / "basic" / "half.jsonl.gz", broker="b")
    house.audit()
    # half_message alone comes back from a backup: what lands next has versions that the audit knows already.
    shutil.rmtree(stored)
    shutil.copytree(before, stored)
    house.warehouse.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    versions = house.versions()
    with pytest.raises(PassReplayed, match="half_message is older than what the last pass of audit saw"):
        house.audit()
    assert house.versions() == versions


def test_a_warehouse_of_other_columns_is_refused_before_anything_is_written(open_house):
    house = open_house("role=audit")
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    path = house.warehouse.path("verdict")
    house.warehouse.spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (colour STRING)")
    versions = house.versions()
    opened = Warehouse(house.warehouse.spark, house.warehouse.uri)
    for job in (run_reconcile, run_audit):
        with pytest.raises(SchemaError, match="verdict: unexpected colour"):
            job(opened, house.settings, now=NOW, wall_clock=wall_clock)
    assert house.versions() == versions


def test_a_warehouse_of_before_gets_the_columns_that_are_new_and_may_be_null(open_house):
    house = open_house("role=audit")
    before = {"verdict": {"reason"}, "quarantine": {"topic", "commit_log_offset"}, "landing_frontier": {"runs"}}
    for name, new in before.items():
        spec, path = table_spec(name), Path(house.warehouse.path(name))
        shutil.rmtree(path)
        kept = tuple(field for field in spec.fields if field.name not in new)
        create_table(str(path), replace(spec, fields=kept), {})
    opened = replace(house, warehouse=Warehouse(house.warehouse.spark, house.warehouse.uri))
    opened.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    opened.audit()
    assert {row["reason"] for row in opened.rows("verdict")} == {"op_unread"}
    versions = opened.versions()
    Warehouse(house.warehouse.spark, house.warehouse.uri).ensure()
    assert opened.versions() == versions
