"""Decoded records become rows of their tables in Arrow, in the task that decoded them: those beyond doubt.

What rules.half and rules.op say in columns of Spark is said here once more for records that leave no doubt. All others
are suspects: they go through Spark, where those rules judge them. Knows no files and no tables of a warehouse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib import names
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.rules.half import HASHED
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS
from txmq_lib.spark.arrays import Numbers
from txmq_lib.spark.row_hash import row_hash

# Beyond these the hash of a row costs more than the way through Spark.
MOST_BODY_BYTES: Final = 64 << 10
MOST_PROPERTIES: Final = 64
# Numbers and op bodies as brokers write them; whatever else casts to a number is judged by Spark.
PLAIN_INT: Final = "^[0-9]{1,9}$"
PLAIN_LONG: Final = "^[0-9]{1,18}$"
PLAIN_OP_BODY: Final = r"^(?:[0-9]{1,18},)+\z"

_TABLE_OF_TOPIC: Final = {
    names.HALF_TOPIC: "half_message",
    names.ROCKSDB_HALF_TOPIC: "half_message",
    names.OP_TOPIC: "op_message",
    names.ROCKSDB_OP_TOPIC: "op_message",
    names.MAX_TIME_TOPIC: "trans_check_max_time",
}
_NEVER_VISIBLE: Final = (names.SYS_FLAG_PREPARED, names.SYS_FLAG_ROLLBACK)


@dataclass(frozen=True)
class Landing:
    """What all rows of one landing have in common.

    table  of all of them, where they are the lines of one kind; a log has records of every kind, and such as never
           enter a queue (R10)
    """

    broker_name: str
    pass_number: int
    is_engine: bool
    trace_topic: str | None = None
    table: str | None = None


def table_of(topic: str | None) -> str:
    """The table of a topic's records."""
    return _TABLE_OF_TOPIC.get(topic or "", "message")


class Records:
    """A batch of decoded records (message_batch.ARROW_SCHEMA), and what becomes of each."""

    def __init__(self, batch: pa.RecordBatch, landing: Landing) -> None:
        self._batch = batch
        self._landing = landing
        self._topics = batch["topic"].dictionary_encode()
        self.is_good: Numbers = _mask(batch["reason"].is_null())
        """Whether a record lies in a queue and nothing is wrong with it, as far as its decoder saw."""
        if landing.table is None:
            flags = batch["sys_flag"].fill_null(0).to_numpy() & names.SYS_FLAG_TRANSACTION_MASK
            self.is_good &= ~np.isin(flags, _NEVER_VISIBLE)
        self.is_plain = self.is_good & self._is_bounded()
        if landing.trace_topic is not None:
            # A message of it is taken apart by Spark: it is a row for each end that it tells.
            self.is_plain &= ~_mask(pc.equal(batch["topic"], landing.trace_topic).fill_null(False))

    def _is_bounded(self) -> Numbers:
        sizes = pc.binary_length(self._batch["body"]).fill_null(0).to_numpy()
        counts = np.diff(self._batch["properties"].offsets.to_numpy())
        is_bounded: Numbers = (sizes <= MOST_BODY_BYTES) & (counts <= MOST_PROPERTIES)
        return is_bounded

    def rows(self) -> dict[str, pa.RecordBatch]:
        """Rows of each table, of the records beyond doubt; the others are `suspects` from then on."""
        table_of_code = [table_of(topic) for topic in self._topics.dictionary.to_pylist()]
        codes = self._topics.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        found = {}
        for table in dict.fromkeys(table_of_code):
            if self._landing.table not in (None, table):
                self.is_plain &= ~np.isin(codes, [code for code, its in enumerate(table_of_code) if its == table])
                continue
            own = [code for code, its in enumerate(table_of_code) if its == table]
            places = np.flatnonzero(self.is_plain & np.isin(codes, own))
            if len(places) and (rows := self._rows_of(table, places)) is not None:
                found[table] = rows
        return found

    def suspects(self) -> pa.RecordBatch:
        """The records that are in no row."""
        return self._batch.filter(pa.array(~self.is_plain))

    def _rows_of(self, table: str, places: Numbers) -> pa.RecordBatch | None:
        batch = self._batch if len(places) == self._batch.num_rows else self._batch.take(pa.array(places))
        columns = {name: batch[name] for name in MESSAGE_COLUMNS}
        doubts = _COLUMNS_OF[table](columns, Properties(batch["properties"]), self._landing)
        if doubts.any():
            self.is_plain[places[doubts]] = False
            is_sure = pa.array(~doubts)
            columns = {name: column.filter(is_sure) for name, column in columns.items()}
        count = len(columns["topic"])
        if not count:
            return None
        columns |= {
            "broker_name": _repeated(self._landing.broker_name, count, pa.string()),
            "content_hash": row_hash([columns[name] for name in (*HASHED, "properties")]),
            "origin": _repeated(names.ORIGIN_LANDED, count, pa.string()),
            "landed_pass": _repeated(self._landing.pass_number, count, pa.int64()),
        }
        if table == "op_message":
            columns = _tokens(columns)
        schema, count = arrow_schema(table_spec(table)), len(columns["queue_id"])
        return pa.RecordBatch.from_arrays(
            [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema],
            schema=schema,
        )


class Properties:
    """The properties of a batch: one of them from all rows at once."""

    def __init__(self, column: pa.MapArray) -> None:
        ends = column.offsets.to_numpy().astype(np.int64)
        first, count = ends[0], ends[-1] - ends[0]
        self._rows = np.repeat(np.arange(len(column)), np.diff(ends))
        self._values = column.items.slice(first, count)
        encoded = column.keys.slice(first, count).dictionary_encode()
        self._codes = encoded.indices.to_numpy()
        self._code_of = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._length = len(column)

    def of(self, name: str) -> pa.StringArray:
        """The property's value in each row; null where absent."""
        if name not in self._code_of:
            return pa.nulls(self._length, pa.string())
        entries = np.flatnonzero(self._codes == self._code_of[name])
        if len(entries) == self._length:
            return self._values.take(pa.array(entries))
        places = np.full(self._length, -1, np.int64)
        places[self._rows[entries]] = entries
        return self._values.take(pa.array(places, mask=places < 0))

    def rows_with(self, names: tuple[str, ...]) -> Numbers:
        """Whether each row has any of these properties."""
        found = np.zeros(self._length, bool)
        codes = [self._code_of[name] for name in names if name in self._code_of]
        if codes:
            found[self._rows[np.isin(self._codes, codes)]] = True
        return found


Columns = dict[str, pa.Array]


def _message(columns: Columns, properties: Properties, landing: Landing) -> Numbers:
    """Adds the columns of `message`; which rows are in doubt."""
    columns["transaction_id"] = properties.of(names.PROPERTY_UNIQ_KEY)
    return _stored(columns, properties)


def _half(columns: Columns, properties: Properties, landing: Landing) -> Numbers:
    """Adds the columns of `half_message`; which rows are in doubt."""
    is_of_rocksdb = _mask(pc.equal(columns["topic"], names.ROCKSDB_HALF_TOPIC))
    prepared, odd = plain_numbers(properties.of(names.PROPERTY_PREPARED_QUEUE_OFFSET), PLAIN_LONG, pa.int64())
    doubts = _stored(columns, properties) | _of_transaction(columns, properties) | odd
    columns["check_immunity"] = properties.of(names.PROPERTY_CHECK_IMMUNITY)
    columns["prepared_queue_offset"] = prepared
    if is_of_rocksdb.any():
        columns["queue_id"] = pc.if_else(pa.array(is_of_rocksdb), names.ROCKSDB_QUEUE_ID, columns["queue_id"])
        columns["queue_id"] = columns["queue_id"].cast(pa.int32())
    # A broker that keeps its halves in RocksDB decides them itself (R116): Spark says so.
    return doubts | is_of_rocksdb if landing.is_engine else doubts


def _given_up(columns: Columns, properties: Properties, landing: Landing) -> Numbers:
    """Adds the columns of `trans_check_max_time`; which rows are in doubt."""
    doubts = _stored(columns, properties) | _of_transaction(columns, properties)
    columns["given_up_timestamp"] = columns["store_timestamp"]
    columns["is_rolled_back"] = _repeated(False, len(doubts), pa.bool_())
    return doubts


def _op(columns: Columns, properties: Properties, landing: Landing) -> Numbers:
    """Adds the tag of `op_message`; which ops are in doubt: all but those that name halves, and nothing else."""
    columns["tags"] = properties.of(names.PROPERTY_TAGS)
    is_told = pc.equal(columns["tags"], names.OP_TAG).fill_null(False)
    is_whole = pc.match_substring_regex(columns["body"], PLAIN_OP_BODY).fill_null(False)
    # One of the RocksDB pair names a half in a property (R117).
    is_plain = pc.and_(pc.and_(is_told, is_whole), pc.equal(columns["topic"], names.OP_TOPIC))
    return ~_mask(is_plain) | properties.rows_with(names.READER_PROPERTIES)


_COLUMNS_OF: Final[Mapping[str, Any]] = {
    "message": _message,
    "half_message": _half,
    "trans_check_max_time": _given_up,
    "op_message": _op,
}


def _stored(columns: Columns, properties: Properties) -> Numbers:
    """Adds what every stored message has; which rows are in doubt."""
    columns["tags"] = properties.of(names.PROPERTY_TAGS)
    columns["keys"] = properties.of(names.PROPERTY_KEYS)
    columns["producer_group"] = properties.of(names.PROPERTY_PRODUCER_GROUP)
    return properties.rows_with(names.READER_PROPERTIES)


def _of_transaction(columns: Columns, properties: Properties) -> Numbers:
    """Adds what half and given-up messages have; which rows are in doubt."""
    real_queue_id, odd_queue = plain_numbers(properties.of(names.PROPERTY_REAL_QUEUE_ID), PLAIN_INT, pa.int32())
    check_times, odd_times = plain_numbers(properties.of(names.PROPERTY_CHECK_TIMES), PLAIN_INT, pa.int32())
    transaction_id = pc.coalesce(properties.of(names.PROPERTY_UNIQ_KEY), columns["offset_msg_id"])
    columns |= {
        "transaction_id": transaction_id,
        "real_topic": properties.of(names.PROPERTY_REAL_TOPIC),
        "real_queue_id": real_queue_id,
        "broker_check_times": check_times,
    }
    return odd_queue | odd_times | _mask(transaction_id.is_null())


def plain_numbers(texts: pa.StringArray, plain: str, kind: pa.DataType) -> tuple[pa.Array, Numbers]:
    """Texts as numbers, and which of them are none as a broker writes it."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind), np.zeros(len(texts), bool)
    is_plain = pc.match_substring_regex(texts, plain)
    is_odd = _mask(pc.invert(is_plain).fill_null(False))
    return (pc.if_else(is_plain, texts, None) if is_odd.any() else texts).cast(kind), is_odd


def _tokens(columns: Columns) -> Columns:
    """Columns of `op_message`: a row per half that an op names, from those of the ops."""
    bodies = pc.utf8_rtrim(columns["body"].cast(pa.string()), ",")
    pieces = pc.split_pattern(bodies, ",")
    counts = pc.list_value_length(pieces).to_numpy()
    ops = pa.array(np.repeat(np.arange(len(counts)), counts))
    first = np.repeat(np.cumsum(counts) - counts, counts)
    kept = {name: column.take(ops) for name, column in columns.items() if name not in ("body", "properties")}
    return kept | {
        "half_queue_offset": pieces.flatten().cast(pa.int64()),
        "position": pa.array((np.arange(len(first)) - first).astype(np.int32)),
    }


def _repeated(value: object, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _mask(values: pa.BooleanArray) -> Numbers:
    mask: Numbers = values.to_numpy(zero_copy_only=False)
    return mask
