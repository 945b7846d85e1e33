"""Rows of a table that is on an object store: its files read side by side, small ones by one request each.

deltalake's own scan asks for one file after the other, three times each, and holds Python's lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """The files of a table. What is small is there when it is open."""

    def open_input_file(self, path: str) -> pa.NativeFile:
        file = super().open_input_file(path)
        return pa.BufferReader(file.read()) if file.size() <= SMALL_FILE else file


def rows_of_files(
    delta: DeltaTable, options: dict[str, str], columns: Sequence[str], predicate: str | None
) -> pa.Table | None:
    """Rows with these columns, of all files that can hold a row of `predicate`; None where that is much.

    options  those that the table was opened with
    """
    pa.set_io_thread_count(REQUESTS_AT_ONCE)
    actions = pa.table(delta.get_add_actions())
    sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    files = PyFileSystem(_Files.from_table(delta._table, options, sizes))
    dataset = delta.to_pyarrow_dataset(filesystem=files, file_pruning_predicate=predicate)
    if sum(sizes.get(path, KEPT_BYTES) for path in dataset.files) > KEPT_BYTES:
        return None
    # Rows are chosen by DuckDB: pyarrow cannot compare texts as deltalake writes them with those of a filter.
    return dataset.scanner(columns=list(columns), fragment_readahead=REQUESTS_AT_ONCE).to_table()
