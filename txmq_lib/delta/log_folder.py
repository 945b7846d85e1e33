"""The files of a table's Delta log: their names from one on, and what they hold. On this disk, or through Hadoop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyspark.sql import SparkSession

from txmq_lib.delta.durable import LOG
from txmq_lib.delta.far_streams import whole_file
from txmq_lib.delta.stored_files import statuses, unless_missing
from txmq_lib.spark.jvm import jvm_class

# An object store takes as long for many requests as for one.
REQUESTS_AT_ONCE = 16
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"

Item = TypeVar("Item")
Result = TypeVar("Result")


class LogFolder(Protocol):
    """The log of one table. What is read of it is not kept here."""

    @property
    def is_near(self) -> bool:
        """Whether a look costs microseconds, not the way to a store and back."""
        ...

    def names(self, start: str) -> list[str]:
        """Names of files at or behind `start` in the order of texts; none where there is no log."""
        ...

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where it is not there."""
        ...

    def prepare(self, start: str, names: Sequence[str]) -> None:
        """Files of these names are read next, all at or behind `start`, and perhaps others from there on."""
        ...

    def mark(self, name: str) -> str:
        """What tells a file from any other of its name: its bytes and when it was written, as a look has listed it.

        Empty where no look has, and where to read it costs no more.
        """
        ...


class LocalFolder:
    """A log on this machine: through the JVM each file would cost milliseconds."""

    is_near = True

    def __init__(self, table_path: str) -> None:
        self._place = Path(table_path, LOG)

    def names(self, start: str) -> list[str]:
        """As `LogFolder` says."""
        try:
            return sorted(name for name in os.listdir(self._place) if name >= start)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes | None:
        """As `LogFolder` says."""
        try:
            return (self._place / name).read_bytes()
        except FileNotFoundError:
            return None

    def prepare(self, start: str, names: Sequence[str]) -> None:
        """As `LogFolder` says."""

    def mark(self, name: str) -> str:
        """As `LogFolder` says."""
        return ""


class HadoopFolder:
    """A log wherever Spark's own file systems reach, with the credentials that they have."""

    is_near = False

    def __init__(self, spark: SparkSession, table_path: str) -> None:
        self._spark = spark
        self._place = jvm_class(spark, "org.apache.hadoop.fs.Path")(f"{table_path}/{LOG}")
        self._filesystem = self._place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self._full_path = str(self._filesystem.makeQualified(self._place).toString())
        self._lists_from = self._filesystem.getClass().getName() == _S3A
        # Bytes, and when it was written, epoch ms.
        self._files: dict[str, tuple[int, int]] = {}

    def names(self, start: str) -> list[str]:
        """As `LogFolder` says. S3 is asked for names from there on only."""
        listed = unless_missing(lambda: self._listed(start)) or ()
        found: dict[str, tuple[int, int]] = {}
        for path, is_folder, size, modified_ms in statuses(self._spark, listed):
            folder, _, name = path.rpartition("/")
            # S3 lists what lies below it as well, and in folders whose names begin alike.
            is_own = folder == self._full_path or not self._lists_from
            if is_own and name >= start and not is_folder:
                found[name] = size, modified_ms
        self._files.update(found)
        return sorted(found)

    def read(self, name: str) -> bytes | None:
        """As `LogFolder` says: one request where a look has listed the file, else two."""
        return unless_missing(lambda: self._content(name))

    def prepare(self, start: str, names: Sequence[str]) -> None:
        """One look in place of a request for the size of each."""
        if any(name not in self._files for name in names):
            self.names(start)

    def mark(self, name: str) -> str:
        """As `LogFolder` says."""
        return " ".join(map(str, self._files.get(name, ())))

    def _listed(self, start: str) -> Any:  # noqa: ANN401 - py4j has no types
        if not self._lists_from:
            return self._filesystem.listStatus(self._place)
        store = jvm_class(self._spark, "io.delta.storage.internal.S3LogStoreUtil")
        return store.s3ListFromArray(self._filesystem, self._file(start or "0"), self._place)

    def _content(self, name: str) -> bytes:
        stream = whole_file(self._spark, self._filesystem, self._file(name), self._files.get(name, (None,))[0])
        try:
            return bytes(jvm_class(self._spark, "org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()

    def _file(self, name: str) -> Any:  # noqa: ANN401 - py4j has no types
        return jvm_class(self._spark, "org.apache.hadoop.fs.Path")(self._place, name)


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`work` of each item, in their order, several at a time."""
    parts: Sequence[Item] = list(items)
    if len(parts) < 2:
        return [work(item) for item in parts]
    with ThreadPoolExecutor(max_workers=min(REQUESTS_AT_ONCE, len(parts))) as pool:
        return list(pool.map(work, parts))
