"""Copies of small data files of a far warehouse on this disk: each is asked for once, side by side.

Spark asks a store several times for a file, one after the other, in each of the jobs that read it. A data file never
changes, and no other one ever has its name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock, get_ident
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.delta.far_streams import whole_file
from txmq_lib.delta.log_actions import DataFile, real_path
from txmq_lib.delta.log_folder import side_by_side
from txmq_lib.files.scratch import scratch
from txmq_lib.spark.jvm import jvm_class

# Of one table at once; of all together, beyond which those go that nobody has read for so long.
MOST_AT_ONCE, MOST_KEPT = 16 << 20, 1 << 30
KEPT_S = 6 * 3_600.0  # longer than a pass that may read them still


class NearCopies:
    """Copies of files of the tables of one warehouse, kept as long as a pass may read them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._place: Path | None = None
        self._used: dict[Path, float] = {}
        self._bytes: dict[Path, int] = {}
        self._lock = Lock()

    def near(self, table_path: str, files: Sequence[DataFile]) -> str | None:
        """The directory on this disk below which `files` of a table lie as they do below its own; None where they are
        many bytes, or cannot be copied: Spark then reads them where they are, and tells what is wrong."""
        if sum(file.size for file in files) > MOST_AT_ONCE:
            return None
        try:
            place = self._directory() / Path(table_path).name
            copies = {place / real_path(file): file for file in files}
            missing = self._not_here(copies)
            filesystem = self._filesystem(table_path) if missing else None
            side_by_side(lambda path: self._copy(filesystem, table_path, path, copies[path]), missing)
        except (Py4JJavaError, OSError):
            return None
        return str(place) if all(path in self._bytes for path in copies) else None

    def _directory(self) -> Path:
        with self._lock:
            if self._place is None:
                self._place = Path(mkdtemp(dir=scratch(), prefix="near-"))
            return self._place

    def _not_here(self, copies: dict[Path, DataFile]) -> list[Path]:
        """Those that are to be copied; the others are marked as read. What is too much goes, longest unread first."""
        now = time.monotonic()
        with self._lock:
            missing = [path for path in copies if path not in self._bytes]
            self._used.update({path: now for path in copies if path in self._bytes})
            kept = sum(self._bytes.values()) + sum(copies[path].size for path in missing)
            for path in sorted(self._used, key=lambda each: self._used[each]):
                if kept <= MOST_KEPT or now - self._used[path] < KEPT_S:
                    break
                kept -= self._bytes.pop(path)
                del self._used[path]
                path.unlink(missing_ok=True)
        if kept > MOST_KEPT:
            raise OSError("no room for more copies")
        return missing

    def _copy(self, filesystem: Any, table_path: str, path: Path, file: DataFile) -> None:  # noqa: ANN401 - py4j has no types
        begun = path.with_name(f".{path.name}.{get_ident()}")
        there = jvm_class(self._spark, "org.apache.hadoop.fs.Path")(f"{table_path}/{real_path(file)}")
        stream = whole_file(self._spark, filesystem, there, file.size)
        # Makes directories, and closes the stream.
        local = jvm_class(self._spark, "java.io.File")(str(begun))
        try:
            jvm_class(self._spark, "org.apache.commons.io.FileUtils").copyInputStreamToFile(stream, local)
            if begun.stat().st_size == file.size:
                os.replace(begun, path)
                with self._lock:
                    self._bytes[path], self._used[path] = file.size, time.monotonic()
        finally:
            with suppress(OSError):
                begun.unlink(missing_ok=True)

    def _filesystem(self, table_path: str) -> Any:  # noqa: ANN401 - py4j has no types
        place = jvm_class(self._spark, "org.apache.hadoop.fs.Path")(table_path)
        return place.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())
