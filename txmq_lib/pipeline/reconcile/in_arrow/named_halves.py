"""Halves at the places that ends name, in Arrow: row groups of half_message, each read when it is first asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.delta.row_groups import Stretch
from txmq_lib.pipeline.reconcile.in_arrow.plain_ends import HALF_COLUMNS
from txmq_lib.spark.arrays import Numbers
from txmq_lib.spark.row_hash import row_hash

HALVES, COMMIT_LOG_OFFSET = "half_message", "commit_log_offset"
# Row groups that are kept, some 50 MiB each: ends name one after the other.
HALVES_KEPT: Final = 2
# Pairs for each row of ends and halves together, at most: beyond that many ends name one place of many halves.
PAIRS_PER_ROW: Final = 4


class TooManyPairsError(Exception):
    """Many ends name a place at which many halves are: who streams them judges them."""


@cache
def columns_of(table: str, names: tuple[str, ...]) -> pa.Schema:
    """Columns of a table, whoever wrote its files: they differ in what they say of nulls."""
    types = arrow_schema(table_spec(table))
    return pa.schema([pa.field(name, types.field(name).type) for name in names])


def has_between(ascending: Numbers, low: int, high: int) -> bool:
    """Whether one of `ascending` is at `low` up to `high`."""
    return bool(np.searchsorted(ascending, low, "left") < np.searchsorted(ascending, high, "right"))


@dataclass(frozen=True)
class Pairs:
    """Ends with the halves at their places: row of the end, hash of the half's transaction, the half."""

    ends: Numbers
    transactions: Numbers
    halves: pa.RecordBatch | None

    def only(self, which: Numbers) -> Pairs:
        """Those of them, by the row of the end."""
        rows = np.flatnonzero(which)
        rows = rows[np.argsort(self.ends[rows], kind="stable")]
        halves = self.halves.take(pa.array(rows)) if self.halves is not None and len(rows) else None
        return Pairs(self.ends[rows], self.transactions[rows], halves)


@dataclass(frozen=True)
class _OfGroup:
    """Halves of a row group by their places, which ascend; `rows` has their rows."""

    halves: pa.RecordBatch
    transactions: Numbers
    places: Numbers
    rows: Numbers


@dataclass
class NamedHalves:
    """Halves of some row groups, each read when it is first asked for."""

    stretches: Sequence[Stretch]
    _kept: OrderedDict[int, _OfGroup] = field(default_factory=OrderedDict)

    def of(self, ends: pa.RecordBatch) -> Pairs:
        """Every half of its broker at the place of each of `ends`; raises TooManyPairsError."""
        places, brokers = ends[COMMIT_LOG_OFFSET].to_numpy(), ends["broker_name"]
        ascending = np.sort(places)
        found = [Pairs(np.empty(0, np.int64), np.empty(0, np.int64), None)]
        for number, stretch in enumerate(self.stretches):
            if has_between(ascending, stretch.least, stretch.greatest):
                found.append(_pairs(places, brokers, self._group(number)))
        batches = [each.halves for each in found if each.halves is not None]
        together = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
        return Pairs(
            np.concatenate([each.ends for each in found]),
            np.concatenate([each.transactions for each in found]),
            together[0] if together else None,
        )

    def _group(self, number: int) -> _OfGroup:
        if number not in self._kept:
            if len(self._kept) == HALVES_KEPT:
                self._kept.popitem(last=False)
            self._kept[number] = _of_group(self.stretches[number])
        self._kept.move_to_end(number)
        return self._kept[number]


def _of_group(stretch: Stretch) -> _OfGroup:
    (halves,) = stretch.group.keys(HALF_COLUMNS).cast(columns_of(HALVES, HALF_COLUMNS)).combine_chunks().to_batches()
    places = halves[COMMIT_LOG_OFFSET].to_numpy()
    rows = np.argsort(places, kind="stable")
    hashes = row_hash([halves["transaction_id"]]).to_numpy()
    return _OfGroup(halves, hashes, places[rows], rows)


def _pairs(places: Numbers, brokers: pa.Array, group: _OfGroup) -> Pairs:
    first = np.searchsorted(group.places, places, "left")
    counts = np.searchsorted(group.places, places, "right") - first
    if counts.sum() > PAIRS_PER_ROW * (len(places) + len(group.places)):
        raise TooManyPairsError
    ends = np.repeat(np.arange(len(places)), counts)
    # The first of each place, then the one behind it.
    steps = np.arange(len(ends)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = group.rows[np.repeat(first, counts) + steps]
    theirs = group.halves["broker_name"].take(pa.array(rows))
    is_same = pc.equal(brokers.take(pa.array(ends)), theirs).to_numpy(zero_copy_only=False)
    ends, rows = ends[is_same], rows[is_same]
    halves = group.halves.take(pa.array(rows)) if len(rows) else None
    return Pairs(ends, group.transactions[rows], halves)
