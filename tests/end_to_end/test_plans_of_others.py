"""Plans that another process, or another version, made: carried on, given up or left alone, as they stand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import truth
from captured import unpack_store
from histories import HALF_TOPIC, message_row
from house import BROKER, House, Killed, failing_once, said_of_brokers, wall_clock
from moment import NOW
from pyspark.sql import functions as F
from small_log import SmallLog
from truth import CAPTURES

from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.arrow_files import WrittenFile
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InvariantViolation, LeftOff
from txmq_lib.passes import runner
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import Job
from txmq_lib.passes.pass_log import taken_back
from txmq_lib.passes.runner import next_pass
from txmq_lib.pipeline.land.job import run_land_files
from txmq_lib.pipeline.take_back import run_take_back

RESTART = CAPTURES / "restart"
END = RESTART / "ends.jsonl.gz"


def states(house: House, job: str) -> list[tuple[int, str]]:
    return sorted((row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == job)


def half_file(house: House, name: str, *places: int) -> Path:
    rows = [
        message_row(HALF_TOPIC, queue_offset=place, place=place, born_ms=0, stored_ms=0, body="",
                    properties={"UNIQ_KEY": f"T{place}", "PGROUP": "G"})
        for place in places
    ]  # fmt: skip
    house.land_rows("half", rows, broker=name)
    return house.scratch / f"half-{house.written}.jsonl.gz"


def test_a_landing_of_a_version_that_knew_fewer_tables_is_given_up_and_the_next_one_goes_on(open_house, tmp_path):
    house, store = open_house("role=audit"), unpack_store("restart", tmp_path / "store")
    newest = Warehouse.newest_versions
    with pytest.MonkeyPatch.context() as before:
        fewer = {"end_trace"}
        before.setattr(
            Warehouse,
            "newest_versions",
            lambda self: {name: version for name, version in newest(self).items() if name not in fewer},
        )
        with house.killed_after("started"):
            house.land_store(store)
    moved = store.rename(store.with_name("moved"))
    house.land_store(moved)
    assert states(house, "land") == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_plan_that_its_own_process_ends_meanwhile_is_not_given_up_after_it(open_house, monkeypatch):
    house = open_house("role=audit")
    mine, theirs = half_file(house, "a", 1, 2), half_file(house, "b", 3)
    before = len(states(house, "land"))
    planned, overtaken = runner._planned, []

    def overtaking(current, *, last_take_back):
        if not overtaken:
            overtaken.append(current.number)
            with pytest.MonkeyPatch.context() as other:
                other.setattr(runner.os, "getpid", lambda: -1)  # another process, which plans are told apart by
                house.land("half", theirs, broker="b2")
            theirs.unlink()  # as a live broker, it does not give the same again
        return planned(current, last_take_back=last_take_back)

    monkeypatch.setattr(runner, "_planned", overtaking)
    house.land("half", mine, broker="a2")
    (number,) = overtaken
    ended = states(house, "land")[before:]
    assert ended == [(number, "committed"), (number, "started"), (number + 1, "committed"), (number + 1, "started")]
    assert sorted(row["broker_name"] for row in house.rows("half_message")) == ["a", "a", "a2", "a2", "b", "b2"]


def test_a_pass_whose_outcomes_were_deleted_again_is_not_carried_on(open_house):
    house = open_house()
    house.land("half", RESTART / "half.jsonl.gz")
    house.land("end", END)
    with house.killed_after("end_outcome"):
        house.reconcile()
    found = next_pass(house.warehouse, "reconcile", now=NOW, arguments={}, settings=house.settings,
                      wall_clock=wall_clock)  # fmt: skip
    with house.killed_after("withdrawn"):
        found.withdraw("end_outcome", F.lit(True), of_step="end_outcome")
    house.reconcile()
    ended = states(house, "reconcile")
    assert ended == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    assert len(house.rows("end_outcome")) == len(house.rows("end_transaction"))


def test_a_pass_that_was_left_off_before_its_first_write_is_carried_on(open_house):
    house = open_house()
    house.land("half", RESTART / "half.jsonl.gz")

    def leave_off(job: Job, current: Pass) -> PassReport:
        raise LeftOff("left off; the next start carries the pass on")

    with pytest.MonkeyPatch.context() as service:
        service.setattr(Job, "run", leave_off)
        with pytest.raises(LeftOff):
            house.reconcile()
    assert states(house, "reconcile") == [(1, "started")]
    house.reconcile()
    assert (1, "committed") in states(house, "reconcile")


def test_a_landing_that_is_carried_on_forgets_nothing_that_landed_before(open_house):
    house = open_house("role=audit")
    house.land("half", RESTART / "half.jsonl.gz")
    with house.killed_after("end"):
        house.land("end", END)
    house.land("end", END)

    def passed_over(kind: str, path: Path) -> bool:
        report = run_land_files(
            house.warehouse, house.settings, kind=kind, paths=[str(path)], broker_name="oracle-a", now=NOW,
            wall_clock=wall_clock, is_idle_when_landed=True,
        )  # fmt: skip
        return report.counts == {"idle": 1}

    assert passed_over("end", END)
    assert passed_over("half", RESTART / "half.jsonl.gz")


def test_of_what_another_process_lands_in_a_cycle_an_audit_sees_all_or_nothing(open_house, tmp_path):
    """A commit of the cycle's own brings single tables up to date: an op message and the frontier, not the message."""
    house, log = open_house("role=audit"), SmallLog()
    half = log.half("T")
    house.land_store(log.write_store(tmp_path / "store"))
    log.commit(half)
    log.op(half)
    other = House(Warehouse(house.warehouse.spark, house.warehouse.uri), tmp_path, house.settings)

    def beside(_table: str, step: str) -> None:
        if step == "started":
            cycle.enter_context(house.warehouse.looking_once())
            house.audit()
        if step == "frontier":
            for table in ("op_message", "landing_frontier"):
                house.warehouse.log(table)
            house.audit()
            raise Killed

    with ExitStack() as cycle, other.on_write(beside), pytest.raises(Killed):
        other.land_store(log.write_store(tmp_path / "store"))
    assert said_of_brokers(house)[BROKER, "T"][0] in ("PENDING", "COMMITTED")


def test_a_write_that_ends_well_and_leaves_no_commit_is_not_believed(open_house, monkeypatch):
    """As where a store let another writer's entry take the place of it."""
    house = open_house("role=audit")
    with monkeypatch.context() as store:
        store.setattr(ArrowWrite, "append", lambda *_: None)
        with pytest.raises(InvariantViolation, match="half_message"):
            house.land("half", RESTART / "half.jsonl.gz")
    assert (1, "committed") not in states(house, "land")
    house.land("half", RESTART / "half.jsonl.gz")
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_write_that_a_store_carries_out_after_it_has_failed_it_lands_beside_no_other(
    open_house, monkeypatch, tmp_path
):
    house, append = open_house("role=audit"), ArrowWrite.append

    def failed(write: ArrowWrite, path: str, files: Sequence[WrittenFile]) -> None:
        append(write, shutil.copytree(path, tmp_path / "later"), files)
        raise OSError("no answer")

    with monkeypatch.context() as store:
        store.setattr(ArrowWrite, "append", failed)
        with pytest.raises(OSError, match="no answer"):
            house.land("half", RESTART / "half.jsonl.gz")
    assert states(house, "land") == [(1, "abandoned"), (1, "started")]
    entry = max((tmp_path / "later" / "_delta_log").glob("*.json")).name
    with pytest.raises(FileExistsError):
        os.link(tmp_path / "later" / "_delta_log" / entry, Path(house.warehouse.uri, "half_message/_delta_log", entry))
    house.land("half", RESTART / "half.jsonl.gz")
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_write_that_has_landed_after_all_is_not_dropped(open_house, monkeypatch):
    house, append = open_house("role=audit"), ArrowWrite.append

    def failed(write: ArrowWrite, path: str, files: Sequence[WrittenFile]) -> None:
        late.append(partial(append, write, path, files))
        raise OSError("no answer")

    def looked(current: Pass) -> bool:
        nothing = landed_nothing(current)
        late.pop()()
        return nothing

    late: list[Callable[[], None]] = []
    landed_nothing = Pass.has_landed_nothing
    with monkeypatch.context() as store:
        store.setattr(ArrowWrite, "append", failed)
        store.setattr(Pass, "has_landed_nothing", looked)
        with pytest.raises(OSError, match="no answer"):
            house.land("half", RESTART / "half.jsonl.gz")
    assert states(house, "land") == [(1, "started")]
    house.land("half", RESTART / "half.jsonl.gz")
    assert (1, "committed") in states(house, "land")
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


@pytest.mark.parametrize("job", ["land", "reconcile"])
def test_a_plan_whose_process_died_as_it_dropped_it_is_not_carried_on(open_house, monkeypatch, job):
    house = open_house()
    house.land("half", RESTART / "half.jsonl.gz")
    if job == "reconcile":
        house.land("end", END)
    step = {"land": "end", "reconcile": "end_outcome"}[job]
    run = {"land": lambda: house.land("end", END), "reconcile": house.reconcile}[job]
    number = max((number for number, _ in states(house, job)), default=0) + 1

    with monkeypatch.context() as write, house.killed_after(step):
        write.setattr(Pass, "_write_through_conflicts", failing_once())
        run()
    run()
    ended = [each for each in states(house, job) if each[0] >= number]
    assert ended == [(number, "abandoned"), (number, "started"), (number + 1, "committed"), (number + 1, "started")]
    house.reconcile()
    assert len(house.rows("end_outcome")) == len(house.rows("end_transaction")) == len(truth.rows("restart", "ends"))


def test_a_plan_that_cannot_even_be_dropped_ends_with_what_failed_it_and_is_carried_on(open_house, monkeypatch):
    house = open_house("role=audit")

    def full(*_: object) -> None:
        raise OSError(f"no space left, {next(times)}")

    times = count(1)
    with monkeypatch.context() as disk:
        disk.setattr(Pass, "_write_through_conflicts", full)
        with pytest.raises(OSError, match="no space left, 1"):
            house.land("half", RESTART / "half.jsonl.gz")
    assert states(house, "land") == [(1, "started")]
    house.land("half", RESTART / "half.jsonl.gz")
    assert (1, "committed") in states(house, "land")
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_take_back_that_was_dropped_stands_in_no_jobs_way(open_house, monkeypatch):
    """Who follows a table reads what each take-back noted with its commits: an occupied step notes no broker."""
    house = open_house("role=audit")
    house.land("half", RESTART / "half.jsonl.gz")
    house.audit()
    before = said_of_brokers(house)

    with monkeypatch.context() as context:
        context.setattr(Pass, "_write_through_conflicts", failing_once())
        with pytest.raises(OSError, match="no space left"):
            take_back(house)
    assert states(house, "take-back") == [(1, "abandoned"), (1, "started")]
    take_back(house)
    assert house.rows("half_message") == []
    house.land("half", RESTART / "half.jsonl.gz")
    house.audit()
    assert said_of_brokers(house) == before != {}
    logs = {table: house.warehouse.log(table) for table in table_specs()}
    gone = [broker for table, log in logs.items() for _, broker in taken_back(log, table, 0, log.version)]
    assert gone == [BROKER] * len(gone) != []


def take_back(house: House) -> PassReport:
    return run_take_back(
        house.warehouse, house.settings, broker_name=BROKER, now=NOW, wall_clock=wall_clock, tell=lambda _: None
    )
