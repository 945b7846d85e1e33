"""Many ends judged where they lie: plain ones (plain_ends.py) from file to file in Arrow; the others are for Spark.

A piece of work is a row group of end_transaction. It reads the halves at the places that its ends name, a few columns
of them, and writes a file of end_outcome. Nothing is shuffled: ends land in about the order of their halves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile, stored_schema
from txmq_lib.delta.row_groups import Stretch, stretches
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.reconcile.in_arrow.named_halves import (
    COMMIT_LOG_OFFSET,
    HALVES,
    HALVES_KEPT,
    NamedHalves,
    Pairs,
    TooManyPairsError,
    columns_of,
    has_between,
)
from txmq_lib.pipeline.reconcile.in_arrow.plain_ends import HALF_COLUMNS, are_plain, outcome_rows
from txmq_lib.rules.end import END_COLUMNS
from txmq_lib.spark.arrays import Numbers

ENDS, OUTCOMES = "end_transaction", "end_outcome"
NOT_WAITING: Final = {"is_held": "false"}
# The hash of its transaction, eight bytes, is kept of each, and copied once to find those that repeat.
MOST_ENDS: Final = 32_000_000
BATCH_ROWS: Final = 1 << 17
# Rows of halves that are read: so many for each end, and so many beside. Beyond that a shuffle is cheaper.
HALVES_PER_END, HALVES_FREE = 8, 4_000_000

Result = TypeVar("Result")


class Judged(NamedTuple):
    """Files of end_outcome with the rows of plain ends, which no commit names yet; and where those left to Spark lie.

    directory_left  with Parquet files of their rows (END_COLUMNS); None where there are none
    """

    files: list[WrittenFile]
    directory_left: str | None


def judged_by_files(current: Pass, *, not_plain: Numbers, refused: Numbers) -> Judged | None:
    """All new ends, the plain ones judged. None where Spark has to judge them all: it finds them, or does it sooner.

    not_plain  hashes (row_hash of their id) of transactions of which more is to be judged than one new end; ascending
    refused    places in a commit log where a half is in quarantine; ascending
    """
    path, found = current.warehouse.local_path(OUTCOMES), _pieces(current)
    if path is None or found is None:
        return None
    work = _Work(
        path=path,
        directory=current.directory("ends-"),
        now=current.now,
        pass_number=current.number,
        not_plain=not_plain,
        refused=refused,
    )
    run = partial(_side_by_side, current)
    try:
        judged = run(work.judge, found)
    except TooManyPairsError:
        return None  # no commit names what was written
    repeated = _repeated(np.concatenate([each.transactions for each in judged]))
    if len(repeated):
        # Several ends of one transaction: who is first is judged with all of them.
        stricter = replace(work, not_plain=np.union1d(not_plain, repeated))
        redone = [each for each in judged if _is_among(each.transactions, repeated).any()]
        for file in (file for each in redone for file in each.files):
            os.unlink(os.path.join(path, file.path))
        unaffected = [each for each in judged if each not in redone]
        judged = unaffected + run(stricter.judge, [each.piece for each in redone])
    files = [file for each in judged for file in each.files]
    left = sum(each.left for each in judged)
    if left > sum(file.rows for file in files):
        for file in files:
            os.unlink(os.path.join(path, file.path))
        return None
    return Judged(files, work.directory if left else None)


@dataclass(frozen=True)
class _Piece:
    """A row group of ends, and those of halves in which their places are."""

    number: int
    ends: Stretch
    halves: tuple[Stretch, ...]


@dataclass(frozen=True, eq=False)
class _JudgedPiece:
    """What became of a piece: its file, how many ends are left, and the transactions (hashes) of all its ends."""

    piece: _Piece
    files: list[WrittenFile]
    left: int
    transactions: Numbers


def _pieces(current: Pass) -> list[_Piece] | None:
    """The work to do; None where it is too much, or files cannot be read from here."""
    is_first = current.known_to(ENDS) is None
    if is_first and not current.read(OUTCOMES).isEmpty():
        return None  # nobody knows which of them were judged before
    ends = _stretches(current.new_files(ENDS), END_COLUMNS)
    if not ends or sum(each.rows for each in ends) > MOST_ENDS:
        return None
    near = current.files_near(HALVES, COMMIT_LOG_OFFSET, [(each.least, each.greatest) for each in ends])
    halves = _stretches(near, HALF_COLUMNS)
    if halves is None:
        return None
    pieces = _side_by_side(current, lambda end: _Piece(end[0], end[1], _near(end[1], halves)), list(enumerate(ends)))
    rows = sum(half.rows for piece in pieces for half in piece.halves * _times_read(piece))
    return pieces if rows <= HALVES_FREE + HALVES_PER_END * sum(each.rows for each in ends) else None


def _times_read(piece: _Piece) -> int:
    """How often its halves are read at most: what is not kept is read again for each batch of ends."""
    return 1 if len(piece.halves) <= HALVES_KEPT else -(-piece.ends.rows // BATCH_ROWS)


def _stretches(files: Iterable[str] | None, columns: Sequence[str]) -> list[Stretch] | None:
    found: list[Stretch] = []
    for file in files if files is not None else ():
        if (of_file := stretches(file, COMMIT_LOG_OFFSET, columns)) is None:
            return None
        found += of_file
    return found if files is not None else None


def _near(ends: Stretch, halves: Sequence[Stretch]) -> tuple[Stretch, ...]:
    places = np.sort(ends.group.keys([COMMIT_LOG_OFFSET])[COMMIT_LOG_OFFSET].to_numpy())
    return tuple(half for half in halves if has_between(places, half.least, half.greatest))


def _side_by_side(current: Pass, task: Callable[..., Result], pieces: Sequence[object]) -> list[Result]:
    """What `task` makes of each of the pieces, in order; a service may leave off between them."""
    threads = current.warehouse.spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="judge") as pool:
        works = [pool.submit(task, piece) for piece in pieces]
        try:
            for _ in as_completed(works):
                current.warehouse.on_part(OUTCOMES, OUTCOMES)
            return [work.result() for work in works]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            # Arrow keeps what it was given; the JVM beside may need it.
            pa.default_memory_pool().release_unused()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What all pieces have in common.

    path       the table end_outcome
    directory  where ends go that are not plain
    not_plain  as in judged_by_files
    """

    path: str
    directory: str
    now: datetime
    pass_number: int
    not_plain: Numbers
    refused: Numbers

    def judge(self, piece: _Piece) -> _JudgedPiece:
        """The piece, judged and written."""
        spec = table_spec(OUTCOMES)
        schema = stored_schema(spec)
        halves = NamedHalves(piece.halves)
        transactions, rest = [np.empty(0, np.int64)], []
        with TableFile(self.path, spec, NOT_WAITING) as file:
            for batch in piece.ends.group.batches(END_COLUMNS, most_rows=BATCH_ROWS):
                ends = batch.cast(columns_of(ENDS, END_COLUMNS))
                pairs = halves.of(ends)
                transactions.append(pairs.transactions)
                plain, its_halves = self._plain(ends, pairs)
                rest.append(ends.filter(pa.array(~_mask(plain, ends.num_rows))))
                if its_halves is not None:
                    rows = outcome_rows(
                        ends.take(pa.array(plain)), its_halves, schema, now=self.now, pass_number=self.pass_number
                    )
                    file.write(rows)
            files = file.finish()
        return _JudgedPiece(piece, files, self._write_rest(piece, rest), np.concatenate(transactions))

    def _plain(self, ends: pa.RecordBatch, pairs: Pairs) -> tuple[Numbers, pa.RecordBatch | None]:
        """Which ends are plain, ascending, and the half of each."""
        is_alone = np.bincount(pairs.ends, minlength=ends.num_rows)[pairs.ends] == 1
        is_clear = is_alone & ~_is_among(pairs.transactions, self.not_plain)
        found = pairs.only(is_clear)
        if found.halves is None:
            return found.ends, None
        places = ends[COMMIT_LOG_OFFSET].to_numpy()[found.ends]
        is_plain = are_plain(ends.take(pa.array(found.ends)), found.halves) & ~_is_among(places, self.refused)
        return found.ends[is_plain], found.halves.filter(pa.array(is_plain))

    def _write_rest(self, piece: _Piece, rest: Sequence[pa.RecordBatch]) -> int:
        """Write the ends that are not plain, for Spark; how many they are."""
        others = pa.Table.from_batches(rest) if rest else None
        if others is None or not others.num_rows:
            return 0
        pq.write_table(others, f"{self.directory}/{piece.number}.parquet", coerce_timestamps="us")
        return int(others.num_rows)


def _mask(rows: Numbers, count: int) -> Numbers:
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask


def _is_among(values: Numbers, ascending: Numbers) -> Numbers:
    if not len(ascending):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)


def _repeated(values: Numbers) -> Numbers:
    """What is there several times, ascending."""
    values.sort()
    return np.unique(values[1:][values[1:] == values[:-1]])
