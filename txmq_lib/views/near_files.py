"""Copies on this disk of files of far tables, for DuckDB to read: each is asked for once, side by side, by one request.

deltalake's own scan asks for one file after the other, three times each, and holds Python's lock meanwhile. A data file
never changes, and no other one of its table ever has its name.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from weakref import finalize

from deltalake import DeltaTable

from txmq_lib.delta.log_actions import lies_below
from txmq_lib.files.scratch import scratch

# Tables of which more has to be read are streamed.
KEPT_BYTES = 64 << 20
REQUESTS_AT_ONCE = 32


class NearFiles:
    """Copies of files of one table, gone when nobody has this any more."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those that the table is opened with."""
        self._options = dict(options)
        self._place = mkdtemp(dir=scratch(), prefix="view-")
        self._lock = Lock()
        finalize(self, shutil.rmtree, self._place, ignore_errors=True)

    def copied(self, delta: DeltaTable, uris: Sequence[str]) -> list[str] | None:
        """Where on this disk the files of these URIs are, in their order; None where they are many bytes, or not below
        the table.

        Errors  OSError, DeltaError where one cannot be read.
        """
        # pyarrow takes a tenth of a second to import, which whoever reads from this disk is spared.
        from deltalake.fs import DeltaStorageHandler

        actions = delta.get_add_actions()
        sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
        paths = {path.rpartition("/")[2]: path for path in sizes}
        needed = [paths[uri.rpartition("/")[2]] for uri in uris]
        if sum(sizes[path] for path in needed) > KEPT_BYTES or not all(map(lies_below, needed)):
            return None
        copies = {path: Path(self._place, path) for path in needed}
        with self._lock, ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            store = DeltaStorageHandler.from_table(delta._table, self._options, sizes)
            missing = [path for path in needed if not copies[path].exists()]
            for directory in {copies[path].parent for path in missing}:
                directory.mkdir(parents=True, exist_ok=True)
            contents = pool.map(lambda path: store.open_input_file(path).read(), missing)
            for path, content in zip(missing, contents, strict=True):
                copies[path].write_bytes(content)
        return [str(copies[path]) for path in needed]
