"""What a pass reads, as its plan saw it, and how the frames it computes are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from txmq_lib.passes.pass_log import taken_back
from txmq_lib.passes.plan import Plan
from txmq_lib.spark.local_frame import materialized

# Rows of a few numbers that may be sent whole to every task: some 300 MiB of memory.
FEW_FOR_TASKS = 3_000_000


@dataclass(kw_only=True)
class Reader(Plan):
    """Tables at the versions of the plan; what a pass computes from them is kept until the pass ends."""

    _kept: list[DataFrame] = field(default_factory=list)

    def read(self, table: str) -> DataFrame:
        """All rows of the table as the plan saw it."""
        return self.warehouse.read(table, self.input_versions[table])

    def has_few_rows(self, table: str) -> bool:
        """Whether the table, as the plan saw it, is read whole as cheaply as in part."""
        return self.warehouse.is_few(table, self.input_versions[table])

    def new_rows(self, table: str) -> DataFrame:
        """Rows landed since the last committed pass of this job and not taken back, as the plan saw them."""
        since, upto = self.known_to(table), self.input_versions[table]
        gone: list[tuple[int, str]] = []
        if since is not None and since < upto:
            gone = taken_back(self.warehouse.log(table), table, since, upto)
        return self.warehouse.rows_between(table, since, upto, taken_back=gone)

    def new_bytes(self, tables: Iterable[str]) -> int | None:
        """Bytes that landed in `tables` since the last committed pass of this job; None where the logs do not tell."""
        sizes = [
            self.warehouse.log(table).bytes_between(self.known_to(table) or 0, self.input_versions[table])
            for table in tables
            if self.has_new_rows(table)
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def gone_inputs(self) -> list[str]:
        """Tables that can no longer be read as the plan saw them."""
        logs = {name: self.warehouse.log(name) for name in self.input_versions}
        return [name for name, log in logs.items() if not log.is_readable(self.input_versions[name])]

    def cached(self, frame: DataFrame) -> DataFrame:
        """`frame`, computed once and kept until the pass ends: what several steps read is planned and read once."""
        if self.is_small and self.warehouse.is_on_one_machine:
            # Cuts the plan as well, which is what a small pass spends its time on.
            return materialized(frame)[0]
        # By columns, so that whoever reads some of them reads only those.
        self._kept.append(frame.persist())
        return self._kept[-1]

    def cached_if_small(self, frame: DataFrame) -> DataFrame:
        """`frame` as `cached` keeps it in a small pass; elsewhere a plan, cheaper to read than to keep."""
        return self.cached(frame) if self.is_small else frame

    def broadcastable(self, frame: DataFrame, *, most: int = FEW_FOR_TASKS) -> DataFrame | None:
        """`frame`, computed and kept, where it has at most `most` rows and so can be sent to every task; else None."""
        kept = self.cached(frame)
        if kept.count() <= most:
            return kept
        kept.unpersist()
        return None

    def release(self) -> None:
        """Let go of what `cached` kept."""
        while self._kept:
            self._kept.pop().unpersist()
