"""Rows of a table that is on an object store: its files read side by side, small ones by one request each.

deltalake's own scan asks for one file after the other, three times each, and holds Python's lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import cast

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

# Tables of which more has to be read are streamed.
KEPT_BYTES = 64 << 20
# Below, a file takes one request; else one for its end and some for its columns.
SMALL_FILE = 1 << 20
REQUESTS_AT_ONCE = 32


class _Files(DeltaStorageHandler):
    """The files of a table. pyarrow opens one after the other, so what is small is there before."""

    _whole: Mapping[str, pa.Buffer] = MappingProxyType({})

    def fetch(self, paths: Sequence[str]) -> None:
        """Read these files whole, side by side."""
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            self._whole = dict(zip(paths, pool.map(self._content, paths), strict=True))

    def open_input_file(self, path: str) -> pa.NativeFile:
        if path in self._whole:
            return pa.BufferReader(self._whole[path])
        return super().open_input_file(path)

    def _content(self, path: str) -> pa.Buffer:
        return pa.py_buffer(super().open_input_file(path).read())


def rows_of_files(
    delta: DeltaTable, options: dict[str, str], columns: Sequence[str], predicate: str | None
) -> pa.Table | None:
    """Rows with these columns, of all files that can hold a row of `predicate`; None where that is much.

    options  those that the table was opened with
    """
    pa.set_io_thread_count(REQUESTS_AT_ONCE)
    actions = pa.table(delta.get_add_actions())
    sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    files = cast("_Files", _Files.from_table(delta._table, options, sizes))
    dataset = delta.to_pyarrow_dataset(filesystem=PyFileSystem(files), file_pruning_predicate=predicate)
    needed = {path: sizes.get(path, KEPT_BYTES) for path in dataset.files}
    if sum(needed.values()) > KEPT_BYTES:
        return None
    files.fetch([path for path, size in needed.items() if size <= SMALL_FILE])
    # Rows are chosen by DuckDB: pyarrow cannot compare texts as deltalake writes them with those of a filter.
    return dataset.scanner(columns=list(columns), fragment_readahead=REQUESTS_AT_ONCE).to_table()
