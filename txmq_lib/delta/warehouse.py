"""The warehouse: where tables are, creating them, reading them at a version. Must not decide what rows mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import RUN_TABLE, TableSpec, table_spec, table_specs
from txmq_lib.delta.conditional_puts import require_conditional_puts
from txmq_lib.delta.conform import struct_type
from txmq_lib.delta.durable import sync_commits, sync_new_table
from txmq_lib.delta.last_seen import last_seen
from txmq_lib.delta.log_actions import DataFile
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.delta.log_folder import side_by_side
from txmq_lib.delta.log_view import reckoned_bytes
from txmq_lib.delta.near_copies import NearCopies
from txmq_lib.delta.plain_files import frame_of_files
from txmq_lib.delta.small_writes import can_write, create_table, table_properties
from txmq_lib.delta.spark_writes import create_by_spark
from txmq_lib.delta.table_logs import TableLogs
from txmq_lib.errors import SchemaError
from txmq_lib.files.object_stores import is_s3, storage_options
from txmq_lib.spark.local_frame import local_frame

# Tables that came after the first version: an older warehouse gets them when it is opened.
LATER_TABLES = ("broker", "broker_set_up", "check_cursor", "connected_producer", "end_trace", "orphan")
# Beyond, leaving files out by their statistics pays; and Spark would list more by a job.
READ_WHOLE_BYTES, FEW_FILES = 64 << 20, 32
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def _no_hook(table: str, step: str) -> None:
    return None


MayMatter = Callable[[DataFile], bool]


def every(file: DataFile) -> bool:
    """Each file may matter."""
    return True


class Warehouse(TableLogs):
    """Delta tables under one URI, named as in `schemas/`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        super().__init__(spark, uri)
        # Called after every write with (table, step): where tests kill a pass.
        self.on_write: Callable[[str, str], None] = _no_hook
        # Called likewise between the parts of what takes long and writes only in the end: where a service leaves off.
        self.on_part: Callable[[str, str], None] = _no_hook
        self.is_on_one_machine = str(spark.sparkContext.master).startswith("local")
        self._has_wanted_columns = False
        # Whether somebody has looked in this process for what a power cut may have left (passes/ready.py).
        self.is_looked_after = False
        self._durable: dict[str, int] = {}
        self._empty: dict[str, DataFrame] = {}
        self._materialized: dict[str, tuple[int, list[Row]]] = {}
        self._copies = NearCopies(spark)

    def local_path(self, table: str) -> str | None:
        """Where a table can be written from here, on this disk; None where it cannot, or executors are elsewhere."""
        path = on_disk(self.path(table)) if self.is_on_one_machine else None
        return path if path is not None and can_write(path) else None

    def small_path(self, table: str) -> str | None:
        """Where a few rows can be written from here; None where Spark has to."""
        path = self.path(table)
        return path if storage_options(path) is not None and can_write(path) else self.local_path(table)

    def is_few(self, table: str, version: int | None = None) -> bool:
        """Whether a version of the table, or the newest, has few files and little in them."""
        return self.bytes_if_few(table, version) is not None

    def bytes_if_few(self, table: str, version: int | None) -> int | None:
        """The size of a table as `DeltaLogView.bytes_between` reckons it; None where it has not few rows."""
        files = self._chosen(table, version, every)
        is_few = files is not None and sum(file.size for file in files) <= READ_WHOLE_BYTES
        return reckoned_bytes(files) if files is not None and is_few else None

    def create_missing(self) -> list[str]:
        """Create the tables that do not exist yet; their names. WarehouseUnsafe where writers could overwrite."""
        missing = [name for name, version in self.look_at(table_specs()).items() if version < 0]
        if missing and is_s3(self.uri):
            require_conditional_puts(self.spark, self.uri)
        others = [table_spec(name) for name in missing if name != "pass"]
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda spec: self._create(spec, syncs_way=False), others))
        self._create(table_spec(RUN_TABLE))  # puts the way to all of them on the disk
        if "pass" in missing:
            self._create(table_spec("pass"))  # last: where it is, all are
        return missing

    def ensure(self) -> None:
        """Create all tables where the warehouse is new, and columns that are new and may be null.

        SchemaError where a table has other columns than are wanted.
        """
        if not self.exists("pass"):
            self.create_missing()
        if not self._has_wanted_columns:
            seen = last_seen(self.log_upto("pass", 0))
            # Behind the look at `pass`: who wrote since has put a row there since.
            self.look_at(["landing_frontier"], since=seen)
            self.look_at((name for name in table_specs() if name not in ("pass", "landing_frontier")), since=seen)
            for name in LATER_TABLES:
                if not self.exists(name):
                    self._create(table_spec(name))
            # What somebody has done to a table by hand since no row tells; on this disk looking costs nothing.
            if self.is_on_disk or not seen.has_columns:
                self._require_wanted_columns()
            self._has_wanted_columns = True
            self._keep_look()

    def _require_wanted_columns(self) -> None:
        # Only the writing jobs look: Spark would read nulls for a missing column, and a pass would end at a write.
        stored = [name for name in table_specs() if self.exists(name)]
        schemas = side_by_side(lambda name: self.log_upto(name, 0).schema(), stored)
        found = {name: table_spec(name).differences(schema) for name, schema in zip(stored, schemas, strict=True)}
        lines = [f"  - {name}: {each}" for name, each in found.items() if str(each) and not each.can_be_added]
        if lines:
            raise SchemaError(
                "tables of another version of txmq, or changed since; nothing was written (txmq upgrade tells more):\n"
                + "\n".join(lines)
            )
        for name, differences in found.items():
            if differences.missing:
                self._add_columns(name, differences.missing)

    def _add_columns(self, table: str, names: Sequence[str]) -> None:
        """Add columns of the spec to a stored table; they are null in the rows it has."""
        columns = ", ".join(
            f"`{field.name}` {field.dataType.simpleString()}"
            for field in struct_type(table_spec(table))
            if field.name in names
        )
        place = self.path(table).replace("`", "``")
        self.spark.sql(f"ALTER TABLE delta.`{place}` ADD COLUMNS ({columns})")

    def make_durable(self, known: Mapping[str, int]) -> None:
        """Put tables that are on this machine on its disk; `known`: a version of each up to which it is there."""
        for table, version in known.items():
            if (path := on_disk(self.path(table))) is not None:
                newest = self.log(table).version
                sync_commits(path, max(version, self._durable.get(table, -1)), newest)
                self._durable[table] = newest

    def read(self, table: str, version: int | None = None, *, may_matter: MayMatter = every) -> DataFrame:
        """All rows of a table, at a version or the newest.

        may_matter  tells which files have rows that are asked for; whether those of others come as well is not said
        """
        if self.was_never_written(table, version):
            # Known without a scan, and Spark plans away whatever is joined with it.
            return self.empty(table)
        files = self._chosen(table, version, may_matter)
        if files is not None:
            return self._frame_of(table, files)
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.path(table))

    def materialized_rows(self, table: str) -> list[Row]:
        """All rows of a table of few, as they are now; read again only where it has moved."""
        version = self.version(table)
        if self._materialized.get(table, (-1, []))[0] != version:
            self._materialized[table] = (version, self.read(table, version).collect())
        return self._materialized[table][1]

    def rows_between(
        self, table: str, after: int | None, upto: int, *, taken_back: Sequence[tuple[int, str]] = ()
    ) -> DataFrame:
        """Rows inserted after version `after` (None: ever) up to version `upto`.

        `taken_back`: versions in that range that deleted all rows of a broker, which the feed gives all the same.
        """
        if after is None:
            return self.read(table, upto)
        if after >= upto:
            return self.empty(table)
        files = self.log_upto(table, upto).inserted_files(after, upto)
        if files is not None and not taken_back:
            return self._frame_of(table, files)
        feed = (
            self.spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", after + 1)
            .option("endingVersion", upto)
            .load(self.path(table))
        )
        for version, broker_name in taken_back:
            feed = feed.where(~((F.col("broker_name") == broker_name) & (F.col("_commit_version") < version)))
        return feed.where("_change_type = 'insert'").drop(*CHANGE_COLUMNS)

    def plain_files(self, table: str, version: int | None) -> tuple[DataFile, ...] | None:
        """The files of a version, or the newest, where all are plain Parquet; None where only Delta can read them."""
        log = self.log(table) if version is None else self.log_upto(table, version)
        return log.plain_files(log.version if version is None else version)

    def was_never_written(self, table: str, version: int | None) -> bool:
        """Whether `version` is that which made the table, without a file: a clone or a rebuilt table has some there."""
        return version == 0 and self.log_upto(table, 0).added_at(0) == ()

    def _chosen(self, table: str, version: int | None, may_matter: MayMatter) -> list[DataFile] | None:
        """The files that may matter; None where they are many, or only Delta can read them."""
        files = self.plain_files(table, version)
        chosen = None if files is None else list(filter(may_matter, files))
        return chosen if chosen is not None and len(chosen) <= FEW_FILES else None

    def _frame_of(self, table: str, files: Sequence[DataFile]) -> DataFrame:
        if not files:
            return self.empty(table)
        # Tasks are of this machine, too.
        is_copied = self.is_on_one_machine and not self.is_on_disk
        near = self._copies.near(self.path(table), files) if is_copied else None
        # Delta runs a Spark job or two per look at a table to find out which files to read.
        return frame_of_files(self.spark, table_spec(table), near or self.path(table), files)

    def empty(self, table: str) -> DataFrame:
        """No rows, with the table's columns."""
        if table not in self._empty:
            self._empty[table] = local_frame(self.spark, [], struct_type(table_spec(table)))
        return self._empty[table]

    def _create(self, spec: TableSpec, *, syncs_way: bool = True) -> None:
        properties = table_properties(spec)
        if (path := self.small_path(spec.table)) is not None:
            create_table(path, spec, properties)
        else:
            create_by_spark(self.spark, self.path(spec.table), spec, properties)
        if (place := on_disk(self.path(spec.table))) is not None:
            sync_new_table(place, syncs_way=syncs_way)
