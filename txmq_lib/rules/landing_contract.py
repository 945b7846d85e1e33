"""The landing contract for messages: a JSON text per row becomes typed columns or a reason. Pure."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    HALF_TOPICS,
    HIGHEST_OFFSET,
    MAX_TIME_TOPIC,
    OP_TOPICS,
    PROPERTY_MAX_OFFSET,
    READER_PROPERTIES,
    TRANSACTION_TOPICS,
)
from txmq_lib.rules.json_lines import (
    JSON_OPTIONS,
    LINE_COLUMNS,
    NESTED,
    NO_TEXT,
    ONE_OBJECT,
    ddl_of,
    fault,
    has_torn_escape,
    json_faults,
    negative_fault,
    offset_fault,
    parsed_lines,
    repetition_fault,
    time_fault,
    verdict_columns,
)
from txmq_lib.rules.moments import timestamp_of

MESSAGE_FIELDS = {
    "topic": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "commitLogOffset": "bigint",
    "sysFlag": "int",
    "flag": "int",
    "bornTimestamp": "bigint",
    "storeTimestamp": "bigint",
    "bornHost": "string",
    "storeHost": "string",
    "offsetMsgId": "string",
    "reconsumeTimes": "int",
    "preparedTransactionOffset": "bigint",
    "properties": "map<string,string>",
    "bodyBase64": "string",
}
OFFSETS = ("queueOffset", "commitLogOffset", "preparedTransactionOffset")
TOPICS_OF_KIND = {"half": HALF_TOPICS, "op": OP_TOPICS, "max-time": (MAX_TIME_TOPIC,)}
NUMBERS = ("queue_id", "queue_offset", "commit_log_offset", "reconsume_times", "prepared_transaction_offset")
TEXTS = ("topic", "born_host", "store_host", "offset_msg_id")
MESSAGE_COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "commit_log_offset",
    "sys_flag",
    "flag",
    "born_timestamp",
    "store_timestamp",
    "born_host",
    "store_host",
    "offset_msg_id",
    "reconsume_times",
    "prepared_transaction_offset",
    "properties",
    "body",
)


def quick_message_rows(lines: DataFrame) -> DataFrame:
    """Columns of a RocketMQ MessageExt for lines beyond doubt; `suspect_value` has the text of all others.

    Columns  MESSAGE_COLUMNS (unspecified where suspect, but for the body, if there is one), suspect_value, source,
             position, fault
    Rule     whatever could fail a check of message_rows is suspect: saying why, or that it is good after all, costs ten
             times as much and is done for those alone
    """
    ddl = ddl_of(MESSAGE_FIELDS)
    parsed = lines.select(*LINE_COLUMNS, "long_body", F.from_json("value", ddl, JSON_OPTIONS).alias("m"))
    typed = parsed.select(
        *_typed_columns(),
        *LINE_COLUMNS,
        F.col("m._corrupt").alias("_corrupt"),
        F.col("m.bodyBase64").alias("_body_text"),
    )
    is_null = [F.col(name).isNull() for name in MESSAGE_COLUMNS]
    is_odd_number = [~F.col(name).between(0, HIGHEST_OFFSET) for name in NUMBERS]
    is_odd_text = [F.col(name).rlike(NO_TEXT) for name in (*TEXTS, "_body_text")]
    names = F.map_keys("properties")
    doubts = [
        F.col("fault").isNotNull(),
        F.col("_corrupt").isNotNull(),
        *is_null,
        *is_odd_number,
        *is_odd_text,
        F.size(names) > F.size(F.array_distinct(names)),
        F.exists(F.map_values("properties"), lambda value: value.rlike(NESTED)),
        ~F.col("value").rlike(ONE_OBJECT),
        ~F.is_valid_utf8("value"),
        has_torn_escape(),
    ]
    is_suspect = F.coalesce(reduce(lambda a, b: a | b, doubts), F.lit(True))
    return typed.select(
        *MESSAGE_COLUMNS, F.when(is_suspect, F.col("value")).alias("suspect_value"), "source", "position", "fault"
    )


def message_rows(lines: DataFrame) -> DataFrame:
    """Columns of a RocketMQ MessageExt, with `reason` and `detail` where the text in `value` cannot be used.

    Columns  MESSAGE_COLUMNS, reason, detail (null for a good row), raw (null for a good row), source, position
    Rule     every field of the contract is required and strictly typed; unknown ones are dropped
    """
    parsed = parsed_lines(lines, MESSAGE_FIELDS, "m")
    checks = [
        *json_faults("o", "m", MESSAGE_FIELDS),
        negative_fault("m", ["queueId", "reconsumeTimes", *OFFSETS]),
        offset_fault("m", [*OFFSETS]),
        repetition_fault("m.properties"),
        time_fault("m", ["bornTimestamp", "storeTimestamp"]),
        fault(_body().isNull(), "BODY_NOT_BASE64", F.lit("bodyBase64 is no base64")),
    ]
    return parsed.select(*_typed_columns(), *verdict_columns(checks), F.col("source"), F.col("position"))


def _typed_columns() -> list[Column]:
    return [
        F.col("m.topic").alias("topic"),
        F.col("m.queueId").alias("queue_id"),
        F.col("m.queueOffset").alias("queue_offset"),
        F.col("m.commitLogOffset").alias("commit_log_offset"),
        F.col("m.sysFlag").alias("sys_flag"),
        F.col("m.flag").alias("flag"),
        timestamp_of(F.col("m.bornTimestamp")).alias("born_timestamp"),
        timestamp_of(F.col("m.storeTimestamp")).alias("store_timestamp"),
        F.col("m.bornHost").alias("born_host"),
        F.col("m.storeHost").alias("store_host"),
        F.col("m.offsetMsgId").alias("offset_msg_id"),
        F.col("m.reconsumeTimes").alias("reconsume_times"),
        F.col("m.preparedTransactionOffset").alias("prepared_transaction_offset"),
        F.col("m.properties").alias("properties"),
        _body().alias("body"),
    ]


def _body() -> Column:
    return F.coalesce("long_body", F.try_to_binary("m.bodyBase64", F.lit("base64")))


def stored_properties(properties: Column) -> Column:
    """Properties as a broker stores them (F4): each has a name and a value, none is a reading client's."""

    def is_stored(name: Column, value: Column) -> Column:
        return F.coalesce((F.length(name) > 0) & (F.length(value) > 0), F.lit(False)) & ~name.isin(*READER_PROPERTIES)

    names, values = F.map_keys(properties), F.map_values(properties)
    # Nearly all are as they should be; array_contains is null where a value is.
    is_odd = (
        F.coalesce(F.array_contains(values, ""), F.lit(True))
        | F.array_contains(names, "")
        | F.arrays_overlap(names, F.array(*[F.lit(name) for name in READER_PROPERTIES]))
    )
    return F.when(is_odd, F.map_filter(properties, is_stored)).otherwise(properties)


def ordered_properties() -> Column:
    """`properties` in the order of their names, so that one line makes one row however it was parsed."""
    properties = F.col("properties")
    names = F.map_keys(properties)
    # A map with a name twice, which makes a line a bad one, cannot be made.
    is_made = F.size(names) == F.size(F.array_distinct(names))
    return F.when(is_made, F.map_from_entries(F.array_sort(F.map_entries(properties)))).otherwise(properties)


def told_end() -> Column:
    """Where its queue ended as a reading client read this row (F4): the next offset; null: none told."""
    stated_end = F.col("properties")[PROPERTY_MAX_OFFSET].try_cast("bigint")
    return F.when((stated_end > F.col("queue_offset")) & (stated_end <= HIGHEST_OFFSET), stated_end)


def topic_fault(kind: str) -> Column:
    """Fault of a message landed as `kind` from a topic that is not that kind's; null where it fits."""
    topic = F.col("topic")
    wrong = ~topic.isin(*TOPICS_OF_KIND[kind]) if kind in TOPICS_OF_KIND else topic.isin(*TRANSACTION_TOPICS)
    return fault(wrong, "WRONG_TOPIC", F.concat(F.lit(f"landed as {kind} but its topic is "), topic))
