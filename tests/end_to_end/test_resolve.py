"""Resolve over whole passes: what the database says is settled once, whatever is killed, down or said twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from house import House, wall_clock
from moment import NOW
from pyspark.sql import SparkSession
from resolving import decided, half, resolve, verdicts

from txmq_lib.answers.protocol import Answer, Check
from txmq_lib.answers.sql import SqlResolver
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import SettingsError
from txmq_lib.service import service as serving
from txmq_lib.service.rounds import Listeners

LOG = "kind: sql, url_env: DB, table: log, key_column: id, state_column: state, commit: [C], rollback: [R]"
SETTINGS = ("transaction_timeout=2", "resolve.checks_per_write=3", f"resolvers={{GID_A: {{{LOG}}}}}")


class Database:
    """A transaction log in SQLite: transaction id to state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {"DB": f"sqlite:///{path}"}
        with sqlite3.connect(path) as connection:
            connection.execute("create table log (id text primary key, state text)")

    def says(self, states: dict[str, str]) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute("delete from log")
            connection.executemany("insert into log values (?, ?)", states.items())


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "log.db")


def answers(house: House) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in house.rows("check_answer"):
        assert row["transaction_id"] not in found, "answered twice"
        found[row["transaction_id"]] = row["answer"] or row["reason"]
    return found


@pytest.fixture(scope="module")
def asked_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Eight open checks of a group with a resolver, one of a group without, two of a broker in the audit role."""
    place = tmp_path_factory.mktemp("asked")
    settings = Settings.load(assignments=[*SETTINGS, "brokers.audited.role=audit"])
    house = House(Warehouse(spark, str(place / "w")), place, settings)
    house.land_rows("half", [*[half(number) for number in range(8)], half(8, "GID_B")])
    house.land_rows("half", [half(20), half(21)], broker="audited")
    assert house.reconcile().counts["check_request"] == 11
    return house


@pytest.fixture
def open_house_of_checks(asked_once: House, copied: Callable[[House, str], House], tmp_path: Path) -> House:
    """A copy of it for one test."""
    return copied(asked_once, f"w-{tmp_path.name}")


SAYS = {"T0": "C", "T1": "R", "T2": "odd", "T4": "C", "T5": "C", "T6": "R", "T20": "C", "T99": "C"}
ANSWERS = {
    "T0": "commit", "T1": "rollback", "T2": "unknown", "T3": "unknown", "T4": "commit", "T5": "commit",
    "T6": "rollback", "T7": "unknown", "T20": "commit", "T21": "unknown",
}  # fmt: skip


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, second: Callable[[], None]) -> Iterator[list[str]]:
    """Who is asked about, in order; with the second batch `second` is called first."""
    asked_about: list[str] = []
    batches = 0
    answer = SqlResolver.answers

    def answers_watched(resolver: SqlResolver, checks: Sequence[Check]) -> list[Answer]:
        nonlocal batches
        batches += 1
        if batches == 2:
            second()
        asked_about.extend(check.transaction_id for check in checks)
        return answer(resolver, checks)

    with monkeypatch.context() as patched:
        patched.setattr(SqlResolver, "answers", answers_watched)
        yield asked_about


def test_what_the_database_says_is_settled_by_the_next_reconcile_and_nothing_else_is(open_house_of_checks, database):
    database.says(SAYS)
    report = resolve(open_house_of_checks, database.environ)
    assert report.counts == {
        "asked": 10, "commit": 4, "rollback": 2, "unknown": 4, "no_answer": 0, "end_transaction": 6, "no_resolver": 1,
    }  # fmt: skip
    assert report.findings == ("GID_B: 1 checks stay asked, no resolver serves the group",)
    assert answers(open_house_of_checks) == ANSWERS
    again = resolve(open_house_of_checks, database.environ, NOW + timedelta(seconds=5))
    assert again.counts == {"idle": 1, "no_resolver": 1}, "an unknown answers its check; nothing is asked twice"
    open_house_of_checks.reconcile(NOW + timedelta(seconds=10))
    assert verdicts(open_house_of_checks) == {
        "T0": "COMMITTED", "T1": "ROLLED_BACK", "T2": "PENDING", "T3": "PENDING", "T4": "COMMITTED",
        "T5": "COMMITTED", "T6": "ROLLED_BACK", "T7": "PENDING", "T8": "PENDING", "T20": "PENDING", "T21": "PENDING",
    }  # fmt: skip
    ends = open_house_of_checks.rows("end_transaction")
    assert {(end["origin"], end["from_transaction_check"]) for end in ends} == {("resolve", True)}
    assert sorted(end["landing_order"] for end in ends if end["broker_name"] != "audited") == [0, 1, 2, 3, 4]
    # In the audit role an answer is recorded and planned for the broker, and changes nothing.
    planned = {
        row["transaction_id"] for row in open_house_of_checks.rows("check_answer") if row["is_planned_for_broker"]
    }
    assert planned == {"T20"}
    assert decided(open_house_of_checks)["T20"] == ["commit accepted"]
    assert {
        row["broker_name"] for row in open_house_of_checks.rows("message") + open_house_of_checks.rows("op_message")
    } == {"oracle-a"}


@pytest.mark.long
def test_a_resolve_killed_after_any_write_keeps_what_was_said_first_and_asks_nobody_twice(
    open_house_of_checks, database, copied, monkeypatch
):
    database.says(SAYS)
    whole = copied(open_house_of_checks, "whole")
    with whole.writing() as steps, watched(monkeypatch, lambda: None) as in_order:
        resolve(whole, database.environ)
    assert steps == [
        "started", "answers_000001", "answers_000002", "answers_000003", "answers_000004", "end_transaction",
        "committed",
    ]  # fmt: skip
    first, changed = answers(whole), {name: {"C": "R", "R": "C"}.get(state, "C") for name, state in SAYS.items()}
    for number, step in enumerate(steps[:-1], start=1):
        house = copied(open_house_of_checks, f"killed-{number}")
        database.says(SAYS)
        with house.killed_after(number):
            resolve(house, database.environ)
        database.says(changed)  # whoever is asked now says something else
        resolve(house, database.environ)
        written = 3 * max(0, min(number - 1, 4))
        kept = {name: said for name, said in answers(house).items() if name in in_order[:written]}
        assert kept == {name: first[name] for name in in_order[:written]}, step
        ends = {end["transaction_id"]: end["commit_or_rollback"] for end in house.rows("end_transaction")}
        said = {name: answer for name, answer in answers(house).items() if answer in ("commit", "rollback")}
        assert ends == {name: {"commit": 8, "rollback": 12}[answer] for name, answer in said.items()}, step
        assert len(house.rows("end_transaction")) == len(ends), step


@pytest.mark.long
def test_two_processes_on_one_plan_that_are_told_different_things_keep_the_first(
    open_house_of_checks, database, monkeypatch
):
    database.says(dict.fromkeys(ANSWERS, "C"))

    def overtake(table: str, step: str) -> None:
        if step == "answers_000001":
            open_house_of_checks.warehouse.on_write = lambda table, step: None
            database.says(dict.fromkeys(ANSWERS, "R"))
            resolve(open_house_of_checks, database.environ)  # carries the plan on to its end
            database.says(dict.fromkeys(ANSWERS, "C"))

    open_house_of_checks.warehouse.on_write = overtake
    with watched(monkeypatch, lambda: None) as asked_about:
        resolve(open_house_of_checks, database.environ)
    first = asked_about[:3]
    assert answers(open_house_of_checks) == {name: "commit" if name in first else "rollback" for name in ANSWERS}
    ends = {end["transaction_id"]: end["commit_or_rollback"] for end in open_house_of_checks.rows("end_transaction")}
    assert ends == {name: 8 if name in first else 12 for name in ANSWERS}
    assert len(open_house_of_checks.rows("end_transaction")) == len(ANSWERS)


@pytest.mark.long
def test_a_database_that_is_down_is_no_answer_told_once_and_asked_again(open_house_of_checks, database, tmp_path):
    down = Database(tmp_path / "other.db")
    down.environ = {"DB": f"sqlite:///{tmp_path}/no/such/place.db"}
    report = resolve(open_house_of_checks, down.environ)
    assert report.counts == {
        "asked": 10, "commit": 0, "rollback": 0, "unknown": 0, "no_answer": 10, "no_answer:GID_A": 10,
        "end_transaction": 0, "no_resolver": 1,
    }  # fmt: skip
    assert report.findings[1].startswith("GID_A: 10 checks without an answer: UNREACHABLE: ")
    assert answers(open_house_of_checks) == {f"T{number}": "UNREACHABLE" for number in [*range(8), 20, 21]}
    before = open_house_of_checks.warehouse.version("check_answer")
    assert resolve(open_house_of_checks, down.environ, NOW + timedelta(seconds=1)).counts["no_answer"] == 10
    # So that nobody who carries the plan on can be told something for a step that is over.
    assert open_house_of_checks.warehouse.version("check_answer") == before + 4, (
        "each step lands, also where nothing was said"
    )
    assert len(open_house_of_checks.rows("check_answer")) == 10, "the same silence is recorded once"
    assert not open_house_of_checks.rows("end_transaction")
    database.says(SAYS)
    assert resolve(open_house_of_checks, database.environ, NOW + timedelta(seconds=2)).counts["commit"] == 4


@pytest.fixture
def in_batches_of_two(open_house_of_checks: House) -> House:
    """All ten checks in one write, two per query."""
    resolvers = f"resolvers={{GID_A: {{{LOG}, batch_size: 2}}}}"
    kept = ("transaction_timeout=2", "brokers.audited.role=audit", "transaction_check_interval=3600s")
    open_house_of_checks.settings = Settings.load(
        assignments=[*kept, resolvers], warehouse=open_house_of_checks.warehouse.uri
    )
    return open_house_of_checks


@pytest.mark.parametrize("by_spark", [False, True])
def test_a_stop_waits_for_the_batch_that_is_asked_and_keeps_what_was_said(
    in_batches_of_two, database, monkeypatch, by_spark
):
    house = in_batches_of_two
    monkeypatch.setattr(serving, "CANCEL_EVERY_S", 0.01)  # no job of a pass that is left off gets through
    if by_spark:
        monkeypatch.setattr(Warehouse, "local_path", lambda warehouse, table: None)
    database.says(SAYS)
    failures: list[str] = []
    listeners = Listeners(lambda *_: None, lambda step, error, pause_s: failures.append(error), lambda *_: None)
    (cycle,) = serving.services(
        house.warehouse,
        house.settings,
        wall_clock=wall_clock,
        environ=database.environ,
        listeners=listeners,
        is_first_at_once=True,
    )
    is_stopped = Event()

    def stop() -> None:
        cycle.stop(interrupt=True)
        is_stopped.set()

    with watched(monkeypatch, stop) as asked_about:
        cycle.start()
        assert is_stopped.wait(120)
        assert cycle.shutdown()
    assert (failures, len(asked_about)) == ([], 4)
    assert answers(house) == {name: ANSWERS[name] for name in asked_about}
    assert [row["state"] for row in house.rows("pass") if row["job"] == "resolve"] == ["started"]
    with watched(monkeypatch, lambda: None) as asked_later:
        report = resolve(house, database.environ, wall_clock() + timedelta(seconds=1))
    assert sorted(asked_about + asked_later) == sorted(ANSWERS), "nobody is asked twice, nobody left out"
    assert report.counts["asked"] == 6
    ends = {end["transaction_id"]: end["commit_or_rollback"] for end in house.rows("end_transaction")}
    assert ends == {name: {"C": 8, "R": 12}[state] for name, state in SAYS.items() if name not in ("T2", "T99")}


def test_what_was_said_before_a_job_was_cancelled_is_kept(in_batches_of_two, database, monkeypatch):
    house = in_batches_of_two
    database.says(SAYS)

    def cancelled() -> None:
        raise RuntimeError("[SPARK_JOB_CANCELLED] Job 7 cancelled")  # of halves that were being read

    with pytest.raises(RuntimeError, match="SPARK_JOB_CANCELLED"), watched(monkeypatch, cancelled) as asked_about:
        resolve(house, database.environ)
    assert len(asked_about) == 2
    assert answers(house) == {name: ANSWERS[name] for name in asked_about}
    with watched(monkeypatch, lambda: None) as asked_later:
        resolve(house, database.environ, NOW + timedelta(seconds=1))
    assert sorted(asked_about + asked_later) == sorted(ANSWERS)


def test_a_secret_that_is_not_there_is_told_before_anything_is_planned(open_house_of_checks):
    with pytest.raises(SettingsError, match=r"resolvers\.GID_A\.url_env: the environment variable DB is not set"):
        resolve(open_house_of_checks, {})
    assert not [row for row in open_house_of_checks.rows("pass") if row["job"] == "resolve"]


def test_each_of_two_halves_at_one_place_is_asked_about_by_its_own_properties(open_house, database):
    by_order = SETTINGS[-1].replace("kind: sql,", "kind: sql, key: property ORDER,")
    house = open_house(*SETTINGS[:-1], by_order)
    rebuilt = {**half(1, ORDER="second"), "commitLogOffset": 0}
    house.land_rows("half", [half(0, ORDER="first"), rebuilt])
    assert house.reconcile().counts["check_request"] == 2
    database.says({"first": "C", "second": "R"})
    resolve(house, database.environ)
    assert answers(house) == {"T0": "commit", "T1": "rollback"}


@pytest.mark.long
def test_given_up_ones_are_asked_about_on_demand_and_a_commit_brings_them_back(open_house, database):
    house = open_house(*SETTINGS, "transaction_check_max=0")
    house.land_rows("half", [half(number) for number in range(3)])
    assert house.reconcile().counts["trans_check_max_time"] == 3
    database.says({"T0": "C", "T1": "R"})
    assert resolve(house, database.environ, given_up=True).counts["asked"] == 3
    asked_for = {(row["transaction_id"], row["asked_for"], row["answer"]) for row in house.rows("check_answer")}
    assert asked_for == {("T0", "given_up", "commit"), ("T1", "given_up", "rollback"), ("T2", "given_up", "unknown")}
    house.reconcile(NOW + timedelta(seconds=1))
    assert verdicts(house) == {"T0": "COMMITTED_AND_DISCARDED", "T1": "ROLLED_BACK", "T2": "DISCARDED"}
