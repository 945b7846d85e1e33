"""What Delta's log says: versions, transaction numbers, tagged commits. Reads only."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

COMMITS_LOOKED_BACK = 50  # where nothing tells from when on to look
BYTE_METRICS = ("numOutputBytes", "numTargetBytesAdded")
MERGE_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated")
# What these commits do changes no row.
QUIET_OPERATIONS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMNS"})
COMMIT_FILE = re.compile(r"(\d{20})\.json")
CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*parquet")


@dataclass(frozen=True)
class TaggedCommit:
    """A commit of ours: its Delta version and what Delta says it wrote."""

    version: int
    metrics: dict[str, str]
    note: str

    @property
    def rows(self) -> int:
        """Rows written: inserted and updated by a merge, else output rows; rows deleted by a delete."""
        merged = [int(self.metrics[key]) for key in MERGE_METRICS if key in self.metrics]
        return sum(merged) if merged else int(self.metrics.get("numOutputRows", self.metrics.get("numDeletedRows", 0)))


class DeltaLogView:
    """The newest snapshot of one table's log."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        # The Delta classes have no Python face for transaction numbers, hence the JVM door.
        self._spark = spark
        self._jvm = cast("Any", spark._jvm)
        self._session: Any = spark._jsparkSession
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, path)
        self._log_path: Any = log.logPath()
        self._snapshot: Any = log.update(False, self._jvm.scala.Option.empty(), self._jvm.scala.Option.empty())

    @property
    def version(self) -> int:
        """The table's newest version; -1 for no table."""
        return int(self._snapshot.version())

    def txn_version(self, app_id: str) -> int:
        """The highest txnVersion recorded for `app_id`; 0 where it never wrote."""
        found = self._snapshot.transactions().get(app_id)
        return int(found.get()) if found.isDefined() else 0

    def tagged_commit(self, tag: str, *, after: int | None = None) -> TaggedCommit | None:
        """The newest commit behind version `after` (None: of the newest 50) whose userMetadata begins with line `tag`.

        What follows that line is its note; None where there is no such commit. The log's own files are read, so it
        costs no Spark job.
        """
        oldest = self.version - COMMITS_LOOKED_BACK if after is None else after
        for version in range(self.version, max(-1, oldest), -1):
            info = self._commit_info(version)
            if info is None:
                return None
            first, _, note = info.get("userMetadata", "").partition("\n")
            if first == tag:
                return TaggedCommit(version, info.get("operationMetrics", {}), note)
        return None

    def bytes_between(self, after: int, upto: int) -> int | None:
        """Bytes written behind version `after` up to `upto`; None where the log does not tell, or beyond 50 commits."""
        if upto - after > COMMITS_LOOKED_BACK:
            return None
        infos = [self._commit_info(version) for version in range(after + 1, upto + 1)]
        if any(info is None for info in infos):
            return None
        metrics = [info.get("operationMetrics", {}) for info in infos if info is not None]
        return sum(int(told[key]) for told in metrics for key in BYTE_METRICS if key in told)

    def txn_versions(self) -> dict[str, int]:
        """The highest txnVersion of every app id that ever wrote."""
        return dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._snapshot.transactions()))

    def operation(self, version: int) -> str | None:
        """What the commit of a version says it did, or None where the log no longer holds it."""
        return (self._commit_info(version) or {}).get("operation")

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
        while known < upto:
            if known + 1 not in own:
                operation = self.operation(known + 1)
                if operation is None:
                    return None
                if operation not in QUIET_OPERATIONS:
                    break
            known += 1
        return known

    def is_readable(self, version: int) -> bool:
        """True where the log still tells the table as it was at `version`."""
        filesystem = self._log_path.getFileSystem(self._session.sessionState().newHadoopConf())
        names = [status.getPath().getName() for status in filesystem.listStatus(self._log_path)]
        commits = {int(found[1]) for found in map(COMMIT_FILE.fullmatch, names) if found}
        checkpoints = {int(found[1]) for found in map(CHECKPOINT_FILE.fullmatch, names) if found}
        start = max((checkpoint for checkpoint in checkpoints if checkpoint <= version), default=-1)
        return commits.issuperset(range(start + 1, version + 1))

    def configuration(self, key: str) -> str | None:
        """A table property, or None where it is not set."""
        found = self._snapshot.metadata().configuration().get(key)
        return str(found.get()) if found.isDefined() else None

    def files(self) -> DataFrame:
        """The files of the newest version: path, size (bytes), partitionValues."""
        return DataFrame(self._snapshot.allFiles().toDF(), self._spark).select("path", "size", "partitionValues")

    def kept_files(self) -> DataFrame:
        """Files that are no longer of the newest version and still kept: path."""
        return DataFrame(self._snapshot.tombstones().toDF(), self._spark).select("path")

    def _commit_info(self, version: int) -> dict[str, Any] | None:
        path = self._jvm.org.apache.hadoop.fs.Path(self._log_path, f"{version:020d}.json")
        filesystem = path.getFileSystem(self._session.sessionState().newHadoopConf())
        if not filesystem.exists(path):
            return None
        stream = filesystem.open(path)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        for line in text.splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                return dict(action["commitInfo"])
        return {}
