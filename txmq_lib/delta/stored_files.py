"""The data files that lie below a table, whether a version names them or not: by listings, no file is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.spark.jvm import jvm_class

# A file system's status of a file or a directory, as it writes it.
_LISTED = re.compile(r"path=([^;]*); isDirectory=(true|false);(?: length=(\d+);[^}]*?)? modification_time=(\d+);")
_HIDDEN = ("_", ".")
_MISSING = "java.io.FileNotFoundException"

Result = TypeVar("Result")


class StoredFile(NamedTuple):
    """A file: its name, bytes, and when it was written, epoch ms."""

    name: str
    size: int
    modified_ms: int


def stored_files(spark: SparkSession, table_path: str) -> list[StoredFile]:
    """The files below a directory and its partitions; what is hidden is passed over, as the log and the change feed."""
    root = jvm_class(spark, "org.apache.hadoop.fs.Path")(table_path)
    filesystem = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    folders, files = [root], list[StoredFile]()
    while folders:
        # A partition may go with its last file.
        listed = unless_missing(partial(filesystem.listStatus, folders.pop())) or ()
        for place, (path, is_folder, size, modified_ms) in enumerate(statuses(spark, listed)):
            name = path.rpartition("/")[2]
            if name.startswith(_HIDDEN):
                continue
            if is_folder:
                folders.append(listed[place].getPath())
            else:
                files.append(StoredFile(name, size, modified_ms))
    return files


def statuses(spark: SparkSession, listed: Any) -> list[tuple[str, bool, int, int]]:  # noqa: ANN401 - py4j has no types
    """Path, whether it is a directory, bytes and epoch ms of each status that a file system has listed, in order."""
    if not len(listed):
        return []
    # One word with the JVM for all of them; some file systems have a text that does not tell, as viewfs has.
    found = _LISTED.findall(str(jvm_class(spark, "org.apache.commons.lang3.ArrayUtils").toString(listed)))
    if len(found) == len(listed) and all("/" in path for path, *_ in found):
        return [(path, kind == "true", int(size or 0), int(ms)) for path, kind, size, ms in found]
    return [
        (str(one.getPath().toString()), one.isDirectory(), one.getLen(), one.getModificationTime()) for one in listed
    ]


def unless_missing(ask: Callable[[], Result]) -> Result | None:
    """What a file system answers; None where what it is asked about is not there."""
    try:
        return ask()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _MISSING:
            return None
        raise
