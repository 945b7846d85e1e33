"""What Delta's log says: versions, transaction numbers, tagged commits. Reads only."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from txmq_lib.delta.log_actions import DataFile
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import REQUESTS_AT_ONCE
from txmq_lib.spark.jvm import jvm_class, set_active

COMMITS_LOOKED_BACK = 50  # where nothing tells from when on to look
LEAST_ROW_BYTES = 128
FEW_ENTRIES = 2  # a commit that is sought is mostly among the newest
# As Spark and as deltalake tell them.
MERGE_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "num_target_rows_inserted", "num_target_rows_updated")
ROW_METRICS = ("numOutputRows", "num_added_rows", "numDeletedRows")
# What these commits do changes no row.
QUIET_OPERATIONS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMNS"})


@dataclass(frozen=True)
class TaggedCommit:
    """A commit of ours: its Delta version and what Delta says it wrote.

    added_rows  of the files it names: where those were written before, Delta does not know what was written
    """

    version: int
    metrics: dict[str, str]
    note: str
    added_rows: int = 0

    @property
    def rows(self) -> int:
        """Rows written: inserted and updated by a merge, else output rows; rows deleted by a delete."""
        merged = [int(self.metrics[key]) for key in MERGE_METRICS if key in self.metrics]
        if merged:
            return sum(merged)
        return next((int(self.metrics[key]) for key in ROW_METRICS if key in self.metrics), self.added_rows)


def reckoned_bytes(files: Iterable[DataFile]) -> int:
    """Bytes of `files`, a row for LEAST_ROW_BYTES at least: millions of rows that are much alike make a small file."""
    return sum(max(file.size, file.rows * LEAST_ROW_BYTES) for file in files)


class DeltaLogView:
    """One table's log up to a version: the newest, as of the last look."""

    def __init__(self, spark: SparkSession, path: str, entries: LogEntries, version: int) -> None:
        self.path = path
        self._spark = spark
        self._entries = entries
        self._version = version

    @property
    def version(self) -> int:
        """The table's newest version; -1 for no table."""
        return self._version

    def txn_version(self, app_id: str) -> int:
        """The highest txnVersion recorded for `app_id`; 0 where it never wrote."""
        return self.txn_versions().get(app_id, 0)

    def txn_versions(self) -> Mapping[str, int]:
        """The highest txnVersion of every app id that ever wrote."""
        versions = self._entries.txns(self.version)
        if versions is not None:
            return versions
        convert = jvm_class(self._spark, "scala.jdk.javaapi.CollectionConverters")
        return dict(convert.asJava(self._snapshot.transactions()))

    def schema(self) -> str:
        """The table's schema, in JSON as Spark writes it."""
        metadata = self._entries.metadata(self.version)
        return metadata.schema if metadata is not None else str(self._snapshot.metadata().schemaString())

    def plain_files(self, version: int) -> tuple[DataFile, ...] | None:
        """The files of a version where all are plain Parquet; None: let Delta read it."""
        return self._entries.plain_files(version, self.version)

    def inserted_files(self, after: int, upto: int) -> list[DataFile] | None:
        """Files with the rows that were inserted behind version `after` up to `upto`, in order.

        None where the log does not tell, other things were done to rows, or only Delta can read them.
        """
        if upto - after > COMMITS_LOOKED_BACK:
            return None
        files: list[DataFile] = []
        for version in self._fetched(range(after + 1, upto + 1)):
            commit = self._entries.commit(version)
            if commit is None or commit.inserted is None or commit.metadata is not None:
                return None
            files += commit.inserted
        return files if all(file.is_plain for file in files) else None

    def tagged_commit(self, tag: str, *, after: int | None = None) -> TaggedCommit | None:
        """The newest commit behind version `after` (None: of the newest 50) whose userMetadata begins with line `tag`.

        What follows that line is its note; None where there is no such commit. The log's own files are read, so it
        costs no Spark job.
        """
        oldest = self.version - COMMITS_LOOKED_BACK if after is None else after
        for version in self._fetched(range(self.version, max(-1, oldest), -1), first=FEW_ENTRIES):
            commit = self._entries.commit(version)
            if commit is None:
                return None
            first, _, note = commit.info.get("userMetadata", "").partition("\n")
            if first == tag:
                added_rows = sum(file.rows for file in commit.added)
                return TaggedCommit(version, commit.info.get("operationMetrics", {}), note, added_rows)
        return None

    def bytes_between(self, after: int, upto: int) -> int | None:
        """Bytes of new rows behind version `after` up to `upto`; None where the log does not tell, or past 50 commits.

        Of a commit that did more to rows than insert them all files count; what was only compacted is not new.
        """
        if upto - after > COMMITS_LOOKED_BACK:
            return None
        commits = [self._entries.commit(version) for version in self._fetched(range(after + 1, upto + 1))]
        if any(commit is None for commit in commits):
            return None
        known = [commit for commit in commits if commit is not None]
        return reckoned_bytes(
            file for commit in known for file in (commit.added if commit.inserted is None else commit.inserted)
        )

    def operation(self, version: int) -> str | None:
        """What the commit of a version says it did, or None where the log no longer holds it."""
        return (self._commit_info(version) or {}).get("operation")

    def added_at(self, version: int) -> tuple[DataFile, ...] | None:
        """The files that the commit of a version names, or None where the log no longer holds it."""
        commit = self._entries.commit(version)
        return None if commit is None else commit.added

    def tag(self, version: int) -> str:
        """The userMetadata of a version's commit; empty where it has none or the log no longer holds it."""
        return str((self._commit_info(version) or {}).get("userMetadata", ""))

    def committed_ms(self, version: int) -> int | None:
        """When a version was committed, epoch ms, or None where the log no longer holds it."""
        return (self._commit_info(version) or {}).get("timestamp")

    def all_known_to(self, known: int, upto: int, own: Container[int] = ()) -> int | None:
        """`known` moved over what changes no row of others right on top of it: `own` versions, upkeep.

        None where the log no longer tells what came next: Delta's change feed would leave it out without a word.
        """
        for version in self._fetched([version for version in range(known + 1, upto + 1) if version not in own]):
            operation = self.operation(version)
            if operation is None:
                return None
            if operation not in QUIET_OPERATIONS:
                return version - 1
        return max(known, upto)

    def mark(self, version: int) -> str:
        """What tells the entry of a version from any other of its number, unread; empty where nothing does."""
        return self._entries.mark(version)

    def is_readable(self, version: int) -> bool:
        """True where the log still tells the table as it was at `version`."""
        start = max((checkpoint for checkpoint in self._entries.checkpoints() if checkpoint <= version), default=-1)
        return set(self._entries.versions()).issuperset(range(start + 1, version + 1))

    def configuration(self, key: str) -> str | None:
        """A table property, or None where it is not set."""
        metadata = self._entries.metadata(self.version)
        if metadata is not None:
            return metadata.configuration.get(key)
        found = self._snapshot.metadata().configuration().get(key)
        return str(found.get()) if found.isDefined() else None

    def files(self) -> DataFrame:
        """The files of the newest version: path, size (bytes), partitionValues."""
        return DataFrame(self._snapshot.allFiles().toDF(), self._spark).select("path", "size", "partitionValues")

    def kept_files(self) -> DataFrame:
        """Files that are no longer of the newest version and still kept: path."""
        return DataFrame(self._snapshot.tombstones().toDF(), self._spark).select("path")

    def _fetched(self, versions: Sequence[int], *, first: int = REQUESTS_AT_ONCE) -> Iterator[int]:
        """`versions` in their order; where one was not read yet it is, and the next few side by side with it.

        first  so many at first, then twice as many: for who may find what it seeks in one of them
        """
        fetched, count = 0, first
        for place, version in enumerate(versions):
            if place >= fetched and not self._entries.holds(version):
                self._entries.fetch(versions[place : place + count])
                fetched, count = place + count, min(2 * count, REQUESTS_AT_ONCE)
            yield version

    def _commit_info(self, version: int) -> dict[str, Any] | None:
        commit = self._entries.commit(version)
        return None if commit is None else commit.info

    @cached_property
    def _snapshot(self) -> Any:  # noqa: ANN401 - py4j has no types
        # The Delta classes have no Python face for what is asked of it here, hence the JVM door.
        set_active(self._spark)
        none = jvm_class(self._spark, "scala.Option").empty()
        delta_log = jvm_class(self._spark, "org.apache.spark.sql.delta.DeltaLog")
        log = delta_log.forTable(self._spark._jsparkSession, self.path)
        return log.update(False, none, none)
