"""The logs of a warehouse's tables: each looked at when it may have moved, those of a store side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.last_seen import LastSeen
from txmq_lib.delta.log_entries import LogEntries, on_disk
from txmq_lib.delta.log_folder import HadoopFolder, LocalFolder, side_by_side
from txmq_lib.delta.log_view import DeltaLogView
from txmq_lib.errors import TableMissingError
from txmq_lib.files.object_stores import spark_uri


def _in_full(spark: SparkSession, uri: str) -> str:
    # On a cluster of Hadoop a path without a scheme is HDFS's, and nothing of it is to be looked for on this disk.
    default = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))
    return uri if ":" in uri or default.startswith("file:") else f"{default.rstrip('/')}{uri}"


@dataclass
class _Look:
    """A look at all tables: the version of each then, and how many commits this process has made there since."""

    versions: Mapping[str, int]
    own_commits: Counter[str] = field(default_factory=Counter)

    def has_seen(self, versions: Mapping[str, int]) -> bool:
        """Whether that look and commits of this process are all that these versions have."""
        return all(self.versions[name] + self.own_commits[name] == version for name, version in versions.items())


class TableLogs:
    """Logs of Delta tables under one URI, named as in `schemas/`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.spark = spark
        self.uri = _in_full(spark, spark_uri(uri)).rstrip("/")
        self._entries: dict[str, LogEntries] = {}
        self._look: _Look | None = None
        self._shares_looks = False

    @property
    def is_on_disk(self) -> bool:
        """Whether it lies on a file system of this machine."""
        return on_disk(self.uri) is not None

    def path(self, table: str) -> str:
        """Where a table lies."""
        return f"{self.uri}/{table}"

    def exists(self, table: str) -> bool:
        """True where the table has been created."""
        return self.log_upto(table, 0).version >= 0

    def highest_number(self, table: str, app_id: str) -> int:
        """The highest number of a step that has landed in a table by now."""
        return self.log(table).txn_version(app_id)

    def log(self, table: str) -> DeltaLogView:
        """The table's log, looked at now."""
        return self._view(table, self._log_entries(table).newest())

    def log_upto(self, table: str, version: int) -> DeltaLogView:
        """The table's log as it is known, where that reaches `version`; else looked at now."""
        newest = self._log_entries(table).known_newest
        return self.log(table) if newest is None or newest < version else self._view(table, newest)

    def entries_behind_checkpoint(self, table: str, *, looks: bool = False) -> int:
        """How many versions of a table lie behind its newest checkpoint, as far as is known or `looks` now."""
        newest = self.log(table).version if looks else self.log_upto(table, 0).version
        return newest - self._log_entries(table).newest_checkpoint(may_be_older=not looks)

    def look_at(self, tables: Iterable[str], *, since: LastSeen | None = None) -> dict[str, int]:
        """Look at the logs of `tables`; the newest version of each, -1 where it does not exist.

        Those of a store side by side; on this machine a thread takes longer to start than a look does.

        since  versions that they are known to have reached
        """
        names = list(tables)
        reached = since.versions if since is not None else {}

        def newest(name: str) -> int:
            return self._log_entries(name).newest(since=reached.get(name))

        return dict(zip(names, map(newest, names) if self.is_on_disk else side_by_side(newest, names), strict=True))

    @contextmanager
    def looking_once(self) -> Iterator[None]:
        """Inside, what is newest is asked of all tables once, and again where commits of others have been seen since.

        What they write unseen is new to a later pass. Seen in one table alone it would be torn: an op message whose
        message is not there yet.
        """
        self._look, self._shares_looks = None, True
        try:
            yield
        finally:
            self._look, self._shares_looks = None, False

    def wrote(self, table: str) -> None:
        """This process has made a commit in a table."""
        if self._look is not None:
            self._look.own_commits[table] += 1

    def newest_versions(self) -> dict[str, int]:
        """The newest version of every table but `pass`; TableMissingError where one does not exist."""
        names = [name for name in table_specs() if name != "pass"]
        if self._look is None or not self._look.has_seen(self._known_versions()):
            # What the frontier tells as read must be seen in the other tables.
            self.look_at(["landing_frontier"])
            self.look_at(name for name in names if name != "landing_frontier")
            self._keep_look()
        return {name: self._existing(self.log_upto(name, 0)).version for name in names}

    def _keep_look(self) -> None:
        self._look = _Look(self._known_versions()) if self._shares_looks else None

    def _known_versions(self) -> dict[str, int]:
        return {name: self.log_upto(name, 0).version for name in table_specs()}

    def _log_entries(self, table: str) -> LogEntries:
        if table not in self._entries:
            place = on_disk(self.path(table))
            folder = HadoopFolder(self.spark, self.path(table)) if place is None else LocalFolder(place)
            self._entries.setdefault(table, LogEntries(folder))
        return self._entries[table]

    def _view(self, table: str, version: int) -> DeltaLogView:
        return DeltaLogView(self.spark, self.path(table), self._log_entries(table), version)

    def _existing(self, log: DeltaLogView) -> DeltaLogView:
        if log.version < 0:
            raise TableMissingError(f"no table {log.path}; create it with: txmq --warehouse {self.uri} init")
        return log

    def version(self, table: str) -> int:
        """The table's newest Delta version; TableMissingError where it does not exist."""
        is_known = self._look is not None
        return self._existing(self.log_upto(table, 0) if is_known else self.log(table)).version
