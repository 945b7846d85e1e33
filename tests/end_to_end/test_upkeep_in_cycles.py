"""A cycle does the upkeep once enough passes have been made, and else has nothing to do with it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from house import BROKER, House, wall_clock
from moment import NOW
from truth import rows

from txmq_lib.delta.log_folder import LocalFolder
from txmq_lib.delta.log_view import DeltaLogView
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline import maintain, upkeep_plan
from txmq_lib.pipeline.cycle import run_cycle

HALVES = rows("restart", "half")
MOST_PASSES = 5


def cycle_of(house: House, minute: int, steps: dict[str, PassReport | Exception]) -> PassReport:
    """One cycle; `steps` gets what each of its steps told."""
    return run_cycle(
        house.warehouse,
        house.settings,
        now=NOW + timedelta(minutes=minute),
        wall_clock=wall_clock,
        environ={},
        on_step=steps.__setitem__,
    )


def told_of_cycle(house: House, minute: int) -> dict[str, PassReport | Exception]:
    """What each step of one cycle told."""
    steps: dict[str, PassReport | Exception] = {}
    cycle_of(house, minute, steps)
    return steps


def land_next(place: Path, count: int) -> None:
    """Another file for the source, of `count` halves."""
    number = len(list(place.iterdir()))
    with gzip.open(place / f"half-{number}.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in HALVES[number * count : (number + 1) * count])


def files_of_pass(house: House) -> int:
    return len(DeltaTable(house.warehouse.path("pass")).file_uris())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "halves"
    place.mkdir()
    return place


@pytest.fixture
def house(open_house: Callable[..., House], source: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(upkeep_plan, "DUE_AFTER_PASSES", MOST_PASSES)
    sources = f"sources=[{{kind: half, paths: [{source}/*.jsonl.gz], broker: {BROKER}}}]"
    return open_house(sources, "maintain.small_files=2")


def test_upkeep_comes_behind_enough_passes_and_not_before_as_many_more(house: House, source: Path):
    land_next(source, 3)
    first = told_of_cycle(house, 0)
    made = [name for name, report in first.items() if report.number]
    assert "maintain" not in first
    assert len(made) < MOST_PASSES <= 2 * len(made)
    assert files_of_pass(house) == 2 * len(made)

    land_next(source, 3)
    second = told_of_cycle(house, 1)
    # All files of `pass`, that of the plan of this very pass as well.
    assert second["maintain"].counts["compacted_files"] >= 4 * len(made) + 1
    assert files_of_pass(house) == 2

    assert "maintain" not in told_of_cycle(house, 1)
    land_next(source, 3)
    assert "maintain" not in told_of_cycle(house, 2)
    assert {row["transaction_id"] for row in house.rows("half_message")} == {
        half["properties"]["UNIQ_KEY"] for half in HALVES[:9]
    }


@pytest.fixture
def _a_disk_lists_files_as_a_store_does(monkeypatch):
    def mark(folder: LocalFolder, name: str) -> str:
        file = folder._place / name
        return f"{file.stat().st_size} {file.stat().st_mtime_ns}" if file.exists() else ""

    monkeypatch.setattr(LocalFolder, "mark", mark)


@pytest.mark.usefixtures("_a_disk_lists_files_as_a_store_does")
def test_a_cycle_behind_upkeep_reads_what_upkeep_did_only_where_it_is_something_else_by_now(
    house: House, source: Path, monkeypatch
):
    for minute in (0, 1):
        land_next(source, 3)
        steps = told_of_cycle(house, minute)
    assert steps["maintain"].counts["compacted_files"]
    history = DeltaTable(house.warehouse.path("half_message")).history()
    (compacted,) = (made["version"] for made in history if made["operation"] == "OPTIMIZE")

    read: list[tuple[str, int]] = []
    operation = DeltaLogView.operation

    def spied(log: DeltaLogView, version: int) -> str | None:
        read.append((log.path.rpartition("/")[2], version))
        return operation(log, version)

    monkeypatch.setattr(DeltaLogView, "operation", spied)
    assert [report.counts for report in told_of_cycle(house, 1).values()] == [{"idle": 1}] * 4
    assert ("half_message", compacted) not in read
    # Copied to another place it is not as it was noted, so it is read.
    entry = Path(house.warehouse.path("half_message"), "_delta_log", f"{compacted:020d}.json")
    os.utime(entry, (1, 1))
    assert [report.counts for report in told_of_cycle(house, 1).values()] == [{"idle": 1}] * 4
    assert ("half_message", compacted) in read

    # The table is of before the upkeep, as one restored alone is; what lands next has the number of the compaction.
    entry.unlink()
    for checksum in entry.parent.glob(f"*{entry.stem}*"):
        checksum.unlink()
    other = replace(house, warehouse=Warehouse(house.warehouse.spark, house.warehouse.uri))
    other.warehouse.is_looked_after = True
    land_next(source, 3)
    told_of_cycle(other, 2)
    assert DeltaTable(house.warehouse.path("half_message")).version() == compacted
    pending = {row["transaction_id"] for row in other.rows("pending_half")}
    assert pending == {half["properties"]["UNIQ_KEY"] for half in HALVES[:9]}


@pytest.mark.parametrize("failure", [PassConflict("settle pass 1 is unfinished"), OSError("may not delete there")])
def test_where_upkeep_fails_the_cycle_has_made_its_passes_and_tells_it(
    house: House, source: Path, monkeypatch, failure
):
    def fail(*_: object, **__: object) -> PassReport:
        raise failure

    monkeypatch.setattr(upkeep_plan, "DUE_AFTER_PASSES", 1)
    monkeypatch.setattr(maintain, "run_maintain", fail)
    land_next(source, 3)
    steps: dict[str, PassReport | Exception] = {}
    report = cycle_of(house, 0, steps)
    assert (report.counts["half"], report.counts.get("conflicts", 0)) == (3, isinstance(failure, PassConflict))
    assert [str(failure) in finding for finding in report.findings] == [True]
    assert (steps["maintain"] is failure) == isinstance(failure, OSError)
