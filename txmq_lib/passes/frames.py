"""How the frames that a pass computes are kept. Jobs say what a frame is for; whether rows are few is decided here.

A small pass (`runner.SMALL_PASS_BYTES`) spends its time on plans, so what several steps read becomes rows in this
process. A pass over many rows spends it on rows: it keeps what is dear to compute, and plans the rest again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import mkdtemp
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.files.materialized import MATERIALIZED_BYTES
from txmq_lib.files.scratch import scratch
from txmq_lib.passes.plan import Plan
from txmq_lib.spark.jvm import without_plan
from txmq_lib.spark.local_frame import at_hand, materialized
from txmq_lib.spark.tuning import tuned

# How many rows may be sent whole to every task: some 300 MiB of numbers, 100 MiB of keys or of queues.
MOST_NUMBERS_SENT, MOST_KEYS_SENT, MOST_QUEUES_SENT = 3_000_000, 500_000, 200_000

Rows = TypeVar("Rows")


@dataclass(kw_only=True)
class Frames(Plan):
    """Frames of a pass, kept until it ends."""

    _persisted: list[DataFrame] = field(default_factory=list)
    _directories: list[str] = field(default_factory=list)

    def cached(self, frame: DataFrame) -> DataFrame:
        """`frame`, which several steps read: computed once, and kept until the pass ends."""
        if at_hand(frame) is not None or any(frame is kept for kept in self._persisted):
            return frame
        if self.is_small and self.warehouse.is_on_one_machine:
            return materialized(frame)  # cuts the plan as well
        # By columns, so that whoever reads some of them reads only those.
        self._persisted.append(frame.persist())
        return self._persisted[-1]

    def kept_whole(self, frame: DataFrame) -> DataFrame:
        """`cached` at once, for few rows that are dear to plan: who reads them plans nothing, and reads all columns."""
        kept = self.cached(frame)
        if at_hand(kept) is not None:
            return kept
        self._persisted.append(without_plan(kept))  # else one that is `cached` again would be kept twice
        return self._persisted[-1]

    def kept_in_small_pass(self, frame: DataFrame) -> DataFrame:
        """`frame`, dearer to plan than to compute: kept where rows are few, elsewhere computed by each reader."""
        return self.cached(frame) if self.is_small else frame

    def exact_in_small_pass(self, exact: DataFrame, wider: DataFrame) -> DataFrame:
        """`exact` where `kept_in_small_pass` kept it, else `wider`, which holds all its rows and is cheaper then."""
        return exact if self.is_small else wider

    def few_or_none(self, make: Callable[[], DataFrame], *, most: int = MOST_NUMBERS_SENT) -> DataFrame | None:
        """What `make` makes, kept, where sending it whole spares a shuffle; None where it has too many rows.

        A small pass has nothing to spare: None, and nothing is made.

        most  how many rows of its width may be sent
        """
        if self.is_small:
            return None
        before = len(self._persisted)
        kept = self.cached(make())
        if kept.count() <= most:
            return kept
        if len(self._persisted) > before:  # nobody else reads it
            self._persisted.pop().unpersist()
        return None

    def sent_if_few(self, frame: DataFrame) -> DataFrame:
        """`frame` to be joined with many rows: sent whole to every task where that spares a shuffle of them."""
        few = self.few_or_none(lambda: frame, most=MOST_KEYS_SENT)
        return frame if few is None else F.broadcast(few)

    def read_here(self, read: Callable[[], Rows | None]) -> Rows | None:
        """The input that `read` gives in this process; None where Spark's tasks are to read it.

        It is asked where the input looked small, and says None where that unpacks into much: then the pass is small no
        longer.
        """
        rows = read() if self.is_small else None
        self.is_small = rows is not None
        return rows

    def by_files(self, make: Callable[[], Rows | None]) -> Rows | None:
        """What `make` makes from file to file where rows are many; None in a small pass, whose rows are here."""
        return None if self.is_small else make()

    @contextmanager
    def planned_for(self, held_bytes: int) -> Iterator[None]:
        """Within it the pass is planned for rows that hold so much, whatever its input looked like."""
        was_small, self.is_small = self.is_small, held_bytes <= MATERIALIZED_BYTES
        try:
            with tuned(self.warehouse.spark, input_bytes=held_bytes, is_small=self.is_small):
                yield
        finally:
            self.is_small = was_small

    def directory(self, prefix: str) -> str:
        """A new directory on this machine, for this process alone, kept until the pass ends."""
        self._directories.append(mkdtemp(dir=scratch(), prefix=prefix))
        return self._directories[-1]

    def release(self) -> None:
        """Let go of all that is kept."""
        while self._directories:
            shutil.rmtree(self._directories.pop(), ignore_errors=True)
        while self._persisted:
            self._persisted.pop().unpersist()
