"""Which table gets a checkpoint: the one with the longest log, once it is due; of real tables on this disk."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from txmq_lib.delta.short_logs import shorten_log, shorten_longest_log

COMMITS = {"short": 3, "long": 11, "longest": 14}


class Tables:
    """As much of a warehouse as is asked of it: where tables are, and how long their logs are known to be."""

    def __init__(self, place: Path) -> None:
        self.place, self.known, self.elsewhere = place, {}, set()

    def small_path(self, table: str) -> str | None:
        return None if table in self.elsewhere else str(self.place / table)

    def entries_behind_checkpoint(self, table: str, *, looks: bool = False) -> int:
        if looks or table not in self.known:
            path = self.place / table
            self.known[table] = DeltaTable(path).version() - max(checkpoints(path), default=-1)
        return self.known[table]


def checkpoints(path: Path) -> list[int]:
    return [int(file.name[:20]) for file in (path / "_delta_log").glob("*.checkpoint.parquet")]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    for name, commits in COMMITS.items():
        for number in range(commits):
            write_deltalake(place / name, pa.table({"n": [number]}), mode="append")
    return place


@pytest.fixture
def tables(written, tmp_path):
    return Tables(shutil.copytree(written, tmp_path / "tables"))


def made(tables: Tables) -> dict[str, list[int]]:
    return {name: found for name in COMMITS if (found := checkpoints(tables.place / name))}


def test_one_at_a_time_the_longest_first_and_none_before_it_is_due(tables):
    shorten_longest_log(tables, COMMITS)
    assert made(tables) == {"longest": [13]}
    for _ in range(2):
        shorten_longest_log(tables, COMMITS)
    assert made(tables) == {"longest": [13], "long": [10]}
    assert DeltaTable(tables.place / "longest").to_pyarrow_table().num_rows == 14


def test_where_it_fails_the_next_one_has_its_turn_and_the_pass_goes_on(tables, caplog):
    tables.known["gone"] = 99
    with caplog.at_level(logging.WARNING, logger="txmq"):
        shorten_longest_log(tables, [*COMMITS, "gone"])
    assert made(tables) == {"longest": [13]}
    assert "no checkpoint of gone was made" in caplog.text


def test_what_another_process_has_made_is_not_made_again(tables):
    tables.known |= {"short": 12, "longest": 0, "long": 0}
    assert not shorten_log(tables, "short")
    assert tables.known["short"] == 3
    assert made(tables) == {}


def test_what_only_spark_can_write_is_left_to_it(tables):
    tables.elsewhere.add("longest")
    shorten_longest_log(tables, COMMITS)
    assert made(tables) == {"long": [10]}
