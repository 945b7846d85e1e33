"""What a pass reads, as its plan saw it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.delta.file_statistics import Ranges
from txmq_lib.delta.log_actions import DataFile, real_path
from txmq_lib.delta.warehouse import MayMatter
from txmq_lib.passes.frames import Frames
from txmq_lib.passes.pass_log import taken_back


@dataclass(kw_only=True)
class Reader(Frames):
    """Tables at the versions of the plan."""

    _read: dict[tuple[str, ...], DataFrame] = field(default_factory=dict)

    def release(self) -> None:
        """Let go of all that is kept."""
        super().release()
        self._read.clear()

    def read(self, table: str) -> DataFrame:
        """All rows of the table as the plan saw it."""
        return self.warehouse.read(table, self.input_versions[table])

    def read_once(self, table: str) -> DataFrame:
        """The same of a table of few rows that several steps read: in a small pass they are read once, and kept."""
        return self._once((table,), lambda: self.read(table))

    def read_files(self, table: str, may_matter: MayMatter) -> DataFrame:
        """Rows of the table as the plan saw it: all of those files that `may_matter`, maybe those of others."""
        return self.warehouse.read(table, self.input_versions[table], may_matter=may_matter)

    def read_part(self, table: str, column: str, *, value: bool) -> DataFrame:
        """Rows of a partition of the table as the plan saw it: those whose `column` has this value."""
        other = str(not value).lower()
        return self.read_files(table, lambda file: file.partition.get(column) != other).where(F.col(column) == value)

    def was_never_written(self, table: str) -> bool:
        """Whether the plan saw the table as it was made, without a row."""
        return self.warehouse.was_never_written(table, self.input_versions[table])

    def has_few_rows(self, table: str) -> bool:
        """Whether the table, as the plan saw it, is read whole as cheaply as in part."""
        return self.warehouse.is_few(table, self.input_versions[table])

    def row_count(self, table: str) -> int | None:
        """How many rows the table had as the plan saw it; None where its log does not tell."""
        files = self.warehouse.plain_files(table, self.input_versions[table])
        # A file without statistics tells of no row, and one with them has some.
        return None if files is None or not all(file.rows for file in files) else sum(file.rows for file in files)

    def new_rows(self, table: str) -> DataFrame:
        """Rows landed since the last committed pass of this job and not taken back, as the plan saw them."""
        since, upto = self.known_to(table), self.input_versions[table]
        gone: list[tuple[int, str]] = []
        if since is not None and since < upto:
            gone = taken_back(self.warehouse.log_upto(table, upto), table, since, upto)
        return self.warehouse.rows_between(table, since, upto, taken_back=gone)

    def new_rows_once(self, table: str, *columns: str) -> DataFrame:
        """These columns of `new_rows`, which several steps read: in a small pass they are read once, and kept."""
        return self._once((table, *columns), lambda: self.new_rows(table).select(*columns))

    def _once(self, name: tuple[str, ...], read: Callable[[], DataFrame]) -> DataFrame:
        if name not in self._read:
            self._read[name] = self.kept_in_small_pass(read())
        return self._read[name]

    def new_files(self, table: str) -> list[str] | None:
        """Files of this machine that hold the rows of `new_rows` and no others; None where Spark has to find them."""
        return self._local_files(table, self._files_of_new_rows(table))

    def are_all_new(self, table: str, may_matter: MayMatter) -> bool:
        """Whether files that may matter hold rows of `new_rows` alone. False where the log does not tell."""
        new = self._files_of_new_rows(table)
        files = self.warehouse.plain_files(table, self.input_versions[table])
        if new is None or files is None:
            return False
        paths = {file.path for file in new}
        return all(file.path in paths for file in files if may_matter(file))

    def _files_of_new_rows(self, table: str) -> Sequence[DataFile] | None:
        since, upto = self.known_to(table), self.input_versions[table]
        if since is None:
            return self.warehouse.plain_files(table, upto)
        if since >= upto:
            return []
        log = self.warehouse.log_upto(table, upto)
        return None if taken_back(log, table, since, upto) else log.inserted_files(since, upto)

    def files_near(self, table: str, column: str, ranges: Ranges) -> list[str] | None:
        """Files of this machine that hold the rows whose `column` is in one of `ranges`; None where Spark has to."""
        files = self.warehouse.plain_files(table, self.input_versions[table])
        near = None if files is None else [file for file in files if file.may_hold(column, ranges)]
        return self._local_files(table, near)

    def _local_files(self, table: str, files: Sequence[DataFile] | None) -> list[str] | None:
        path = self.warehouse.local_path(table)
        return None if path is None or files is None else [os.path.join(path, real_path(file)) for file in files]

    def new_bytes(self, tables: Iterable[str]) -> int | None:
        """Bytes that landed in `tables` since the last committed pass of this job; None where the logs do not tell."""
        sizes = [
            self.warehouse.log_upto(table, self.input_versions[table]).bytes_between(
                self.known_to(table) or 0, self.input_versions[table]
            )
            for table in tables
            if self.has_new_rows(table)
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def gone_inputs(self) -> list[str]:
        """Tables that can no longer be read as the plan saw them."""
        logs = {name: self.warehouse.log(name) for name in self.input_versions}
        return [name for name, log in logs.items() if not log.is_readable(self.input_versions[name])]
