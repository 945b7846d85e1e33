"""Upkeep beside passes: no row changes, none comes twice, none is missed; what somebody still reads is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from house import House, wall_clock
from moment import NOW
from truth import rows

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict, PlanInputsGone
from txmq_lib.passes.current import PassReport
from txmq_lib.passes.pass_log import standings
from txmq_lib.passes.retention import compact, keep_for
from txmq_lib.pipeline import maintain
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.pipeline.upkeep_plan import TableUpkeep

pytestmark = pytest.mark.long

SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=1")
# Land, then reconcile: half of a real broker's halves and ends first, the others later.
HALVES, ENDS = rows("restart", "half"), rows("restart", "ends")
LATER = NOW + timedelta(minutes=5)
SECOND_MS = 1000


def now() -> datetime:
    return datetime.now(UTC)


def reports(offset: int) -> list[dict[str, Any]]:
    base = {"group": "CG", "topic": "TopicA", "clientId": "c1"}
    return [{"ts": 1_795_257_700_000 + offset, "queueId": queue, "offset": offset, **base} for queue in (0, 1)]


def land_half_of_it(house: House) -> House:
    for place in range(0, 80, 20):
        house.land_rows("half", HALVES[place : place + 20])
        house.land_rows("end", ENDS[place : place + 15])
    for offset in (5, 6, 7):
        house.land_rows("offset", reports(offset))
    return house


def land_the_rest(house: House) -> None:
    house.land_rows("half", HALVES[80:], now=LATER)
    # Some ends of before among them: landed before, judged before.
    house.land_rows("end", ENDS, now=LATER)
    house.land_rows("offset", reports(3) + reports(9), now=LATER)


def run_all(house: House, at: datetime) -> list[PassReport]:
    return [house.reconcile(at), house.rollup(at), house.audit(at)]


def contents(house: House, tables: Iterable[str]) -> dict[str, list[str]]:
    """Every row of the tables, in some fixed order."""
    return {table: sorted(str(sorted(row.items(), key=str)) for row in house.rows(table)) for table in tables}


def upkeep_of(
    house: House,
    *,
    at: datetime | None = None,
    planned_at: datetime | None = None,
    dry_run: bool = False,
    **limits: int,
) -> tuple[PassReport, dict[str, TableUpkeep]]:
    """A run at the moment `at`, else now; `planned_at` is what the clock says until the plan is told."""
    plans_told: dict[str, TableUpkeep] = {}
    settings = house.settings.model_copy(update={"maintain": house.settings.maintain.model_copy(update=limits)})
    report = run_maintain(
        house.warehouse,
        settings,
        wall_clock=lambda: at or (planned_at if planned_at and not plans_told else now()),
        tell=lambda planned: plans_told.update({table.table: table for table in planned}),
        dry_run=dry_run,
    )
    return report, plans_told


def stored(house: House, table: str) -> set[str]:
    """Names of the data files of a table that are there, whether any version needs them or not."""
    return {path.name for path in Path(house.warehouse.uri, table).rglob("*.parquet") if "_delta_log" not in path.parts}


def lose_log(house: House) -> None:
    """Take from every log what a clean-up takes: all but a checkpoint of the newest version."""
    jvm = house.warehouse.spark._jvm
    for table in house.versions():
        path = house.warehouse.path(table)
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(house.warehouse.spark._jsparkSession, path)
        log.checkpoint()
        for version in range(house.warehouse.version(table)):
            for entry in Path(path, "_delta_log").glob(f"*{version:020d}.*"):
                entry.unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture
def begun(open_house: Callable[..., House], copied: Callable[[House, str], House]) -> House:
    """Half of it landed, in several landings, and nothing done with it yet."""
    return land_half_of_it(open_house(*SETTINGS, name="begun"))


def test_upkeep_changes_no_row_wakes_no_job_and_hides_nothing_that_comes_later(begun, copied):
    house = begun
    run_all(house, NOW)
    twin = copied(house, "twin")
    tables = sorted(house.versions())
    before, versions = contents(house, tables), house.versions()
    report, lines = upkeep_of(house, small_files=2, dry_run=True)
    assert (report.number, house.versions()) == (0, versions)
    assert lines["half_message"].compacted_files == lines["half_message"].files == 4
    assert lines["pass"].small_files > 20
    report, lines = upkeep_of(house, small_files=2)
    # One file more than told: the row of this very pass.
    assert report.counts["compacted_files"] == sum(table.compacted_files for table in lines.values()) + 1
    assert report.counts["conflicts"] == report.counts["removed_files"] == 0
    moved = {table for table, version in house.versions().items() if version > versions[table]}
    assert {"half_message", "end_transaction", "consumer_offset_commit"} <= moved
    assert contents(house, tables) == before
    passes = house.rows("pass")
    assert [report.counts for report in run_all(house, NOW)] == [{"idle": 1}] * 3
    assert house.rows("pass") == passes
    assert upkeep_of(house)[0].counts == {"idle": 1}
    assert house.rows("pass") == passes
    land_the_rest(house)
    land_the_rest(twin)
    assert [report.counts for report in run_all(house, LATER)] == [report.counts for report in run_all(twin, LATER)]
    assert contents(house, tables) == contents(twin, tables)
    assert len({(row["topic"], row["queue_id"], row["queue_offset"]) for row in house.rows("message")}) == len(
        house.rows("message")
    )


def test_an_upkeep_killed_behind_its_last_work_is_ended_by_the_next(begun, copied):
    twin = copied(begun, "twin")
    with twin.writing() as steps:
        upkeep_of(twin, small_files=2)
    assert steps[-2:] == ["compact", "committed"]
    with begun.killed_after(len(steps) - 1):
        upkeep_of(begun, small_files=2)
    assert upkeep_of(begun, small_files=2)[0].number
    assert [each.open_number for each in standings(begun.warehouse) if each.open_number] == []
    assert upkeep_of(begun, small_files=50)[0].counts == {"idle": 1}


def test_replaced_files_go_when_nobody_reads_them_and_stay_for_a_job_that_has_not(begun, copied):
    house = begun
    run_all(house, NOW)
    short = {"small_files": 2, "file_retention_ms": SECOND_MS}
    before = stored(house, "half_message")
    upkeep_of(house, **short)
    assert stored(house, "half_message") > before
    land_the_rest(house)
    twin = copied(house, "twin")
    house.reconcile(LATER)
    time.sleep(2.5)
    report, planned = upkeep_of(house, **short)
    assert planned["half_message"].held_for == "audit has not read what came with version 7"
    assert planned["consumer_offset_commit"].held_for.startswith("rollup has not read")
    assert before < stored(house, "half_message")
    # Nobody waits for the changes of a table that is merged into.
    assert planned["landing_frontier"].held_for == ""
    removed = [table for table in planned.values() if table.removes_files]
    assert {"landing_frontier", "pass"} <= {table.table for table in removed}
    assert report.counts["removed_files"] == sum(table.expired_files for table in removed) > 0
    run_all(house, LATER)
    run_all(twin, LATER)
    tables = sorted(house.versions())
    assert contents(house, tables) == contents(twin, tables)
    time.sleep(1.5)
    _, planned = upkeep_of(house, **short)
    assert {table.held_for for table in planned.values()} == {""}
    assert before.isdisjoint(stored(house, "half_message"))
    assert contents(house, tables) == contents(twin, tables)
    assert [report.counts for report in run_all(house, LATER)] == [{"idle": 1}] * 3


def test_what_grows_old_while_an_upkeep_runs_stays_for_a_job_that_has_not_read_it(begun):
    run_all(begun, NOW)
    short = {"small_files": 2, "file_retention_ms": SECOND_MS}
    before = stored(begun, "half_message")
    upkeep_of(begun, **short)
    time.sleep(1)
    land_the_rest(begun)
    landed_ms = begun.warehouse.log("half_message").committed_ms(7)
    time.sleep(2)
    report, lines = upkeep_of(begun, planned_at=datetime.fromtimestamp((landed_ms + 500) / 1000, UTC), **short)
    assert lines["half_message"].removes_files
    assert before < stored(begun, "half_message")
    assert report.counts["held"] > 0


def test_what_an_unfinished_pass_reads_is_kept_and_short_retention_is_refused_beside_it(begun, copied, monkeypatch):
    house = begun
    twin = copied(house, "twin")
    with house.killed_after("end_outcome"):
        house.reconcile(NOW)
    short = {"small_files": 2, "file_retention_ms": SECOND_MS}
    with pytest.raises(PassConflict, match="reconcile pass 1 is unfinished"):
        upkeep_of(house, **short)
    monkeypatch.setattr(maintain, "SHORTEST_BESIDE_PASSES_MS", 0)
    before = stored(house, "half_message")
    upkeep_of(house, **short)
    time.sleep(2.5)
    _, planned = upkeep_of(house, **short)
    assert planned["half_message"].expired_files == len(before)
    assert planned["half_message"].held_for == "reconcile pass 1 is unfinished and reads version 4"
    assert before < stored(house, "half_message")
    run_all(house, NOW)
    run_all(twin, NOW)
    tables = sorted(house.versions())
    assert contents(house, tables) == contents(twin, tables)


def test_a_job_that_paused_until_the_logs_were_cleaned_reads_whole_tables_and_misses_and_repeats_nothing(begun, copied):
    house = begun
    run_all(house, NOW)
    twin = copied(house, "twin")
    for place in (house, twin):
        land_the_rest(place)
    lose_log(house)
    run_all(house, LATER)
    run_all(twin, LATER)
    tables = sorted(house.versions())
    assert contents(house, tables) == contents(twin, tables)
    assert [report.counts for report in run_all(house, LATER)] == [{"idle": 1}] * 3


def test_an_unfinished_pass_whose_inputs_are_gone_is_given_up_or_named(begun, copied):
    house = begun
    half_done = copied(house, "half-done")
    for place, step in ((house, "started"), (half_done, "end_outcome")):
        with place.killed_after(step):
            place.reconcile(NOW)
        land_the_rest(place)
        lose_log(place)
    house.reconcile(LATER)
    states = [(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "reconcile"]
    assert sorted(states) == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    ends = [(row["landed_pass"], row["landing_order"]) for row in house.rows("end_outcome")]
    assert len(ends) == len(set(ends)) == len(ENDS)
    with pytest.raises(PlanInputsGone, match=r"reconcile pass 1 is unfinished, and .*half_message"):
        half_done.reconcile(LATER)


def test_compacting_all_the_time_beside_passes_changes_no_outcome(begun, copied):
    house = begun
    twin = copied(house, "twin")
    tables = sorted(house.versions())
    stop = threading.Event()
    compacted: list[int | None] = []

    def compact_on_and_on() -> None:
        beside = Warehouse(house.warehouse.spark.newSession(), house.warehouse.uri)
        while not stop.is_set():
            for table in (*tables, "pass"):
                compacted.append(compact(beside, table, below_bytes=1 << 30, file_bytes=1 << 30, tag="beside"))

    beside = threading.Thread(target=compact_on_and_on)
    beside.start()
    try:
        run_all(house, NOW)
        land_the_rest(house)
        run_all(house, LATER)
    finally:
        stop.set()
        beside.join()
    run_all(twin, NOW)
    land_the_rest(twin)
    run_all(twin, LATER)
    assert sum(files or 0 for files in compacted) > 20
    assert contents(house, tables) == contents(twin, tables)


def test_rows_of_old_passes_go_but_for_what_each_job_begins_at(begun):
    house = begun
    run_all(house, NOW)
    before = house.rows("pass")
    assert upkeep_of(house, dry_run=True)[1]["pass"].old_passes == 0
    an_hour_later = wall_clock() + timedelta(hours=1)
    assert upkeep_of(house, at=an_hour_later, dry_run=True, pass_retention_ms=3_600_000)[1]["pass"].old_passes == 0
    report, lines = upkeep_of(house, at=an_hour_later, pass_retention_ms=3_599_999)
    landings = max(row["pass_number"] for row in before if row["job"] == "land")
    assert report.counts["old_passes"] == lines["pass"].old_passes == 2 * (landings - 1)
    left = {(row["job"], row["pass_number"]) for row in house.rows("pass")}
    assert left == {("land", landings), ("reconcile", 1), ("rollup", 1), ("audit", 1), ("maintain", 1)}
    assert [report.counts for report in run_all(house, NOW)] == [{"idle": 1}] * 3


def test_two_that_tell_a_table_at_once_how_long_to_keep_do_not_fail(open_house):
    warehouse = open_house().warehouse
    changes: list[bool | None] = []

    def tell(spans_ms: range) -> None:
        for span_ms in spans_ms:
            changes.append(keep_for(warehouse, "half_message", file_retention_ms=span_ms, log_retention_ms=span_ms))

    others = [threading.Thread(target=tell, args=(range(first, first + 40_000, 4_000),)) for first in (1_000, 3_000)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert len(changes) == 20
    assert changes.count(True) >= 10
