"""Logs of tables stay short, and no pass waits for more than one checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import truth
from deltalake import DeltaTable
from house import House

WRITTEN = ("pass", "half_message", "landing_frontier")
LONGEST = 10 + len(WRITTEN)  # ten entries, and the turns of the others


def checkpoints(house: House) -> set[Path]:
    return set(Path(house.warehouse.uri).glob("*/_delta_log/*.checkpoint.parquet"))


def entries_behind_checkpoint(house: House, table: str) -> int:
    made = [int(path.name[:20]) for path in checkpoints(house) if path.parts[-3] == table]
    return DeltaTable(house.warehouse.path(table)).version() - max(made, default=-1)


def test_each_pass_makes_one_checkpoint_at_most_and_no_log_grows_long(open_house: Callable[..., House]):
    house = open_house()
    most = dict.fromkeys(WRITTEN, 0)
    for half in truth.rows("restart", "half")[:12]:
        before = checkpoints(house)
        house.land_rows("half", [half])
        assert len(checkpoints(house) - before) <= 1
        for table in WRITTEN:
            most[table] = max(most[table], entries_behind_checkpoint(house, table))
    assert max(most.values()) <= LONGEST, most
    assert {path.parts[-3] for path in checkpoints(house)} == set(WRITTEN)
