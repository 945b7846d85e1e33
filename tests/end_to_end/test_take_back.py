"""A broker landed under a wrong name is taken back: every table is as if it had never landed, before or after passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest
from house import House, wall_clock
from moment import NOW
from truth import rows

from txmq_lib.config.table_specs import table_specs
from txmq_lib.errors import PassConflict, UsageError
from txmq_lib.passes import runner
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.pipeline.take_back import rows_of, run_take_back
from txmq_lib.pipeline.taken_tables import DECISIONS, TABLES
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.rows_of_broker import rows_of_broker

pytestmark = pytest.mark.long

SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=1")
HALVES = rows("restart", "half")
# Without the broker they were sent to: under another's name they would be refused.
ENDS = [
    {**row, "header": {name: value for name, value in row["header"].items() if name != "bname"}}
    for row in rows("restart", "ends")
]
LATER = NOW + timedelta(minutes=5)
WRONG = "oralce-a"
# Numbers of passes and names of files tell how a row came, not what it says.
HOW_IT_CAME = {
    *("pass_number", "landed_pass", "last_report_landed_pass", "recent_reports"),
    *("source", "raw", "fingerprint"),
}


def land(house: House, halves: slice, **options: object) -> None:
    house.land_rows("half", [*HALVES[halves], "{torn"], **options)
    house.land_rows("end", ENDS[halves], **options)
    report = {"ts": 1_795_257_700_000, "group": "CG", "topic": "TopicA", "queueId": 0, "offset": 5}
    house.land_rows("offset", [report], **options)
    ack = {"ts": 1_795_257_700_000, "group": "CG", "topic": "TopicA", "queueId": 0, "clientId": "c", "event": "dropped"}
    house.land_rows("ack", [ack], **options)


def run_all(house: House, at=NOW) -> list[PassReport]:
    return [house.reconcile(at), house.rollup(at), house.audit(at)]


def contents(house: House, *, broker: str | None = None) -> dict[str, list[str]]:
    """What every row of every table says, in some fixed order."""
    return {
        table: sorted(
            str(sorted(((name, value) for name, value in row.items() if name not in HOW_IT_CAME), key=str))
            for row in house.rows(table)
            if broker in (None, row["broker_name"])
        )
        for table in TABLES
    }


def take_back(house: House, broker: str = WRONG) -> tuple[PassReport, Mapping[str, int]]:
    rows_by_table: dict[str, int] = {}
    report = run_take_back(
        house.warehouse,
        house.settings,
        broker_name=broker,
        now=NOW,
        wall_clock=wall_clock,
        tell=rows_by_table.update,
    )
    return report, rows_by_table


@pytest.fixture
def right(open_house: Callable[..., House]) -> House:
    """A broker landed under its name, and all passes over it."""
    house = open_house(*SETTINGS, name="right")
    land(house, slice(0, 60))
    run_all(house)
    return house


def test_every_table_that_says_something_of_a_broker_is_taken_back():
    assert set(table_specs()) - set(TABLES) == {"pass"}


def test_after_passes_over_it_every_table_is_as_if_it_had_never_landed(right, copied):
    house, twin = copied(right, "house"), right
    land(house, slice(20, 90), broker=WRONG)
    run_all(house)
    house.land_rows("half", HALVES[90:], broker=WRONG)
    run_all(house, LATER)
    run_all(twin, LATER)
    wrong = {table: len(lines) for table, lines in contents(house, broker=WRONG).items()}
    # Orphans and cursors are of audited brokers, and set-ups of those that land from a store or live; no client traced.
    empty = {
        "broker_request",
        "check_answer",
        "manual_decision",
        "orphan",
        "check_cursor",
        "broker_set_up",
        "end_trace",
        "connected_producer",
    }
    assert {table for table in TABLES if not wrong[table]} <= empty
    reader = WarehouseReader(house.warehouse.uri)
    assert rows_of_broker(reader, WRONG, TABLES) == wrong
    assert rows_of_broker(reader, WRONG, DECISIONS) == rows_of(house.warehouse, WRONG, DECISIONS)
    report, rows_by_table = take_back(house)
    assert (report.counts, rows_by_table) == (wrong, wrong)
    assert contents(house) == contents(twin)
    recorded = [row for row in house.rows("pass") if row["job"] == "take-back"]
    assert {(row["state"], row["arguments"]) for row in recorded} == {
        (state, f'{{"broker_name": "{WRONG}"}}') for state in ("started", "committed")
    }
    with pytest.raises(UsageError, match=f"no table has a row of broker {WRONG}; brokers there are: oracle-a"):
        take_back(house)
    for place in (house, twin):
        run_all(place, LATER)
        land(place, slice(50, None))
        run_all(place, LATER)
    assert contents(house) == contents(twin)


def test_taken_back_before_any_pass_has_read_it_it_is_never_read_and_may_land_again(right, copied):
    house, twin = copied(right, "house"), right
    land(house, slice(20, 90), broker=WRONG)
    take_back(house)
    run_all(house)
    assert contents(house) == contents(twin)
    assert [report.counts for report in run_all(house)] == [{"idle": 1}] * 3
    # Landed and taken back again, then landed once more, all between two passes: the last landing counts.
    land(house, slice(0, 30), broker=WRONG)
    take_back(house)
    for place in (house, twin):
        land(place, slice(20, 90), broker=WRONG)
        run_all(place, LATER)
    assert contents(house) == contents(twin)


def test_it_waits_for_unfinished_passes_and_they_wait_for_it(right):
    land(right, slice(20, 90), broker=WRONG)
    wrong = {table: len(lines) for table, lines in contents(right, broker=WRONG).items()}
    with right.killed_after("end_outcome"):
        right.reconcile()
    with pytest.raises(PassConflict, match="reconcile pass 2 is unfinished"):
        take_back(right)
    left = {table: len(lines) for table, lines in contents(right, broker=WRONG).items()}
    assert {table for table in TABLES if left[table] != wrong[table]} == {"end_outcome"}
    right.reconcile()
    with right.killed_after("half_message"):
        take_back(right)
    for job in (lambda: land(right, slice(0, 5)), right.rollup, right.audit):
        with pytest.raises(PassConflict, match="take-back pass 2 is unfinished"):
            job()
    take_back(right)
    assert not any(contents(right, broker=WRONG).values())
    land(right, slice(0, 90))
    assert "idle" not in right.audit().counts


def test_a_take_back_killed_as_soon_as_it_was_planned_waits_all_the_same(right, copied):
    house, twin = copied(right, "house"), right
    land(house, slice(20, 90), broker=WRONG)
    with house.killed_after("end_outcome"):
        house.reconcile()
    with house.killed_after("started"):
        take_back(house)
    with pytest.raises(PassConflict, match="reconcile pass 2 is unfinished"):
        take_back(house)
    assert contents(house, broker=WRONG)["half_message"], "nothing is taken back beside it"
    house.reconcile()
    take_back(house)
    for place in (house, twin):
        run_all(place, LATER)
    assert contents(house) == contents(twin)


def test_a_pass_killed_as_soon_as_it_was_planned_beside_a_take_back_is_planned_anew(right, copied):
    house, twin = copied(right, "house"), right
    land(house, slice(20, 90), broker=WRONG)
    with house.killed_after("half_message"):
        take_back(house)
    with house.killed_after("started"):
        house.reconcile()
    take_back(house)
    assert "idle" not in house.reconcile(LATER).counts
    states = {(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "reconcile"}
    assert {(2, "abandoned"), (3, "committed")} <= states
    twin.reconcile(LATER)
    for place in (house, twin):
        run_all(place, LATER)
    assert contents(house) == contents(twin)


def test_a_plan_that_was_read_before_a_take_back_and_recorded_after_it_is_made_anew(right, copied, monkeypatch):
    house, twin = copied(right, "house"), right
    land(house, slice(20, 90), broker=WRONG)
    plans: list[Pass] = []

    def slow(warehouse, job, **options) -> Pass:
        current = next_pass(warehouse, job, **options)
        plans.append(current)
        if len(plans) == 1:
            with monkeypatch.context() as undone:
                undone.setattr(runner, "next_pass", next_pass)
                take_back(house)
        return current

    next_pass = runner.next_pass
    monkeypatch.setattr(runner, "next_pass", slow)
    for place in (house, twin):
        run_all(place, LATER)
    assert [plan.number for plan in plans[:2]] == [2, 3]
    assert contents(house) == contents(twin)
