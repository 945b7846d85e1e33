"""Rows appended to a table of an object store by one file and one log entry, with no more of its log read than needed.

deltalake opens a table anew in each process, and reads each entry behind its checkpoint twice. Where the newest entry
says that the table asks nothing more of who appends, that entry is all that is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from txmq_lib.config.resources import txmq_version
from txmq_lib.config.table_specs import TableSpec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile
from txmq_lib.delta.durable import LOG
from txmq_lib.delta.log_entries import LogEntries, entry_name
from txmq_lib.delta.log_folder import HadoopFolder
from txmq_lib.files.scratch import scratch
from txmq_lib.spark.jvm import jvm_class
from txmq_lib.spark.log_store import put_new

# In the commitInfo of an entry: from here on the table has these columns, and asks nothing else of who appends to it.
APPENDABLE = "txmqAppendable"
# Above it come columns that files name otherwise, numbers that the log gives out, and features by name.
_LAST_PLAIN_WRITER = 4
# What else it may ask for: a condition of each row. A change feed asks nothing of who only adds.
_CONSTRAINT = "delta.constraints."


def appendable_note(table: DeltaTable, spec: TableSpec) -> dict[str, str]:
    """What a commit to `table` is to say where it asks of who appends only the columns of `spec`; else nothing."""
    metadata, fields = table.metadata(), json.loads(table.schema().to_json())["fields"]
    asks_more = (
        table.protocol().min_writer_version > _LAST_PLAIN_WRITER
        or bool(metadata.partition_columns)
        or any(key.startswith(_CONSTRAINT) for key in metadata.configuration)
        or any(each["metadata"].keys() - {"comment"} for each in fields)  # invariants, generated columns
    )
    stated = _digest(spec.to_json()["fields"])
    return {} if asks_more or _digest(fields) != stated else {APPENDABLE: stated}


class FarAppends:
    """Appends to a table that lies where Spark's file systems reach, each as one file and one log entry."""

    def __init__(self, spark: SparkSession, path: str, spec: TableSpec) -> None:
        self._spark, self._path, self._spec = spark, path, spec
        self._columns = _digest(spec.to_json()["fields"])
        self._entries = LogEntries(HadoopFolder(spark, path))
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def append(self, rows: pa.Table) -> int | None:
        """Append rows; the version they made. None, and nothing appended, where the newest entry does not say that it
        takes so little, or where Spark does not reach the store. Py4JError where nobody knows what became of the entry.
        """
        written: WrittenFile | None = None
        while True:
            try:
                newest = self._entries.newest()
                if not self._is_appendable(newest):
                    return None
                written = written or self._put(rows)
            except (Py4JError, OSError):
                return None
            if self._commit(newest + 1, written):
                return newest + 1

    def _is_appendable(self, version: int) -> bool:
        if version < max(0, self._entries.newest_checkpoint(may_be_older=True)):
            return False  # entries are missing: nobody would read the next one
        commit = self._entries.commit(version)
        return commit is not None and commit.info.get(APPENDABLE) == self._columns

    def _put(self, rows: pa.Table) -> WrittenFile:
        with TemporaryDirectory(dir=scratch(), prefix="append-") as place, TableFile(place, self._spec) as file:
            for batch in rows.to_batches():
                file.write(batch)
            (written,) = file.finish()
            content = Path(place, written.path).read_bytes()
        path = self._jvm("org.apache.hadoop.fs.Path")(self._path, written.path)
        # No file has its name: no look whether one is there, where the store lets that be.
        stream = path.getFileSystem(self._configuration).createFile(path).overwrite(True).recursive().build()
        try:
            stream.write(content)
        finally:
            stream.close()
        return written

    def _commit(self, version: int, file: WrittenFile) -> bool:
        """Put the entry of a version; False where another one has it."""
        place = f"{self._path}/{LOG}/{entry_name(version)}"
        return put_new(self._spark, place, map(json.dumps, self._actions(file)))

    def _actions(self, file: WrittenFile) -> Sequence[dict[str, Any]]:
        info = {
            "timestamp": file.modified_ms,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "operationMetrics": {"num_added_files": 1, "num_removed_files": 0, "num_added_rows": file.rows},
            "engineInfo": f"txmq/{txmq_version()}",
            "isBlindAppend": True,
            APPENDABLE: self._columns,
        }
        add = {
            "path": file.path,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": file.modified_ms,
            "dataChange": True,
            "stats": file.stats,
        }
        return {"commitInfo": info}, {"add": add}

    def _jvm(self, name: str) -> Any:  # noqa: ANN401 - py4j has no types
        return jvm_class(self._spark, name)


def _digest(fields: Sequence[dict[str, Any]]) -> str:
    columns = [[each["name"], each["type"], each["nullable"]] for each in fields]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]
