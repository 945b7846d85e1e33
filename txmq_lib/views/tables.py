"""The tables of a warehouse, opened without a JVM, and what their logs say: no row is read. Must not write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from txmq_lib.config.table_specs import table_spec
from txmq_lib.errors import InputError, TableMissingError, TxmqError, WarehouseUnreached
from txmq_lib.files.object_stores import looking_options, namenode_fault, reason_of, storage_options

# An object store takes as long for many requests as for one.
TABLES_AT_ONCE = 32
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stored:
    """What a table's log says of its rows without any being read."""

    row_count: int
    highest_values: Mapping[str, Any]

    def highest(self, column: str) -> Any:  # noqa: ANN401 - of the column's type
        """The highest value of a column; None where there is no row, or the log does not say."""
        return self.highest_values.get(column)


class Tables:
    """The tables under one URI, each as its log was when it was first asked for."""

    def __init__(self, uri: str) -> None:
        self.uri = _plain(uri)
        self.is_far = "://" in self.uri
        self._tables: dict[str, DeltaTable] = {}
        self._opening: dict[str, Lock] = {}
        self._looking = Lock()
        self._is_made: bool | WarehouseUnreached | None = None
        self._namenode_fault: str | None = None

    def is_made(self) -> bool:
        """Whether there is the table of passes, which every warehouse has; asked once.

        WarehouseUnreached where the place of the tables does not answer, within three seconds.
        """
        path = f"{self.uri}/pass"
        with self._looking:
            if self._is_made is None:
                try:
                    self._is_made = DeltaTable.is_deltatable(path, looking_options(path))
                except (DeltaError, OSError) as error:
                    self._is_made = WarehouseUnreached(f"warehouse {self.uri}: {reason_of(error, path)}")
            if isinstance(self._is_made, WarehouseUnreached):
                raise self._is_made
            return self._is_made

    def require_reached(self) -> None:
        """WarehouseUnreached where the place of the tables does not answer; whether they are there does not matter.

        Of HDFS it is asked whether its NameNode takes connections: Spark may get further there than deltalake does.
        """
        if self.options() is not None:
            self.is_made()
        elif self.is_far:
            with self._looking:
                if self._namenode_fault is None:
                    self._namenode_fault = namenode_fault(self.uri)
            if self._namenode_fault:
                raise WarehouseUnreached(f"warehouse {self.uri}: {self._namenode_fault}")

    def stored(self, table: str) -> Stored:
        """Rows and highest values of a table, from the statistics of its files in Delta's log."""
        with self.readable(table) as delta:
            files = delta.get_add_actions(flatten=True)
        highest: dict[str, Any] = {}
        for name in files.schema.names:
            if name.startswith("max."):
                values = [value for value in files[name].to_pylist() if value is not None]
                highest[name.removeprefix("max.")] = max(values, default=None)
        return Stored(sum(files["num_records"].to_pylist()), highest)

    def schema_difference(self, table: str) -> str:
        """How the stored columns differ from those of `schemas/`, in words; empty where they do not."""
        with self.readable(table) as delta:
            return str(table_spec(table).differences(delta.schema().to_json()))

    def file_ranges(self, table: str, columns: Sequence[str]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """The lowest and highest value of each of `columns`, per file of the table; none where the log has none."""
        with self.readable(table) as delta:
            files = delta.get_add_actions(flatten=True)
        if not files.num_rows or not {f"max.{name}" for name in columns} <= set(files.schema.names):
            return []
        low, high = ([files[f"{end}.{name}"].to_pylist() for name in columns] for end in ("min", "max"))
        return list(zip(zip(*low, strict=True), zip(*high, strict=True), strict=True))

    def side_by_side(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`work` of each item, in their order; several at a time where tables are far."""
        parts = list(items)
        if not self.is_far or len(parts) < 2:
            return [work(item) for item in parts]
        with ThreadPoolExecutor(min(TABLES_AT_ONCE, len(parts))) as pool:
            return list(pool.map(work, parts))

    def open_ahead(self, tables: Iterable[str]) -> None:
        """Begin to open far tables that will be asked for; what cannot be opened is told when it is asked for."""
        if self.is_far:
            # Whoever asks for a table waits for that one alone.
            opening = ThreadPoolExecutor(TABLES_AT_ONCE)
            for table in tables:
                opening.submit(self._opened_or_not, table)
            opening.shutdown(wait=False)
            far_files()

    def _opened_or_not(self, table: str) -> None:
        with suppress(TxmqError), self.readable(table):
            pass

    def options(self) -> dict[str, str] | None:
        """How deltalake gets to the tables; None on a file system."""
        return storage_options(self.uri, longest_s=4)

    def _missing(self, table: str) -> str:
        if self.uri.startswith("/") and Path(self.uri).is_file():
            return f"warehouse {self.uri} is a file; a settings file is given by --conf"
        if self.uri.startswith("/") and not any(Path(self.uri, name).exists() for name in (table, "pass")):
            named = "name yours by --conf or --warehouse"
            return f"no warehouse at {self.uri}; {named}, or let a first txmq run, or txmq init, make it"
        return (
            f"no table {table} in the warehouse {self.uri}; name the one that has it by --conf or --warehouse, or "
            f"create it with: txmq --warehouse {self.uri} init"
        )

    @contextmanager
    def readable(self, table: str) -> Iterator[DeltaTable]:
        """The table, opened once. Within it what cannot be read is told as InputError, or TableMissingError."""
        path = f"{self.uri}/{table}"
        try:
            with self._opening.setdefault(table, Lock()):
                if table not in self._tables:
                    # To open a table has more patience with a store that is silent.
                    self.require_reached()
                    self._tables[table] = DeltaTable(path, storage_options=self.options())
            yield self._tables[table]
        except TableNotFoundError:
            raise TableMissingError(self._missing(table)) from None
        except (DeltaError, OSError) as error:
            raise InputError(f"table {path} cannot be read: {reason_of(error, path)}") from error


def far_files() -> ModuleType:
    """What reads far files; pyarrow takes 0.2 s to import, which whoever reads from this disk is spared."""
    return import_module("txmq_lib.views.far_files")


def _plain(uri: str) -> str:
    # Spark writes file:/w where deltalake wants a path; other schemes mean the same to both.
    bare = uri.rstrip("/") or "/"
    if bare.startswith("file:"):
        bare = "/" + bare.removeprefix("file:").lstrip("/")
    return bare if "://" in bare else str(Path(bare))
