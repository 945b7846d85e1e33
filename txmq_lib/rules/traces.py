"""Messages of the trace topic into one row per EndTransaction record: which end a client says it sent (R129). Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import LOCAL_STATES, TRACE_END
from txmq_lib.rules.json_lines import fault
from txmq_lib.rules.moments import timestamp_of

# As TraceDataEncoder writes them: a record ends in the one, its fields have the other between them.
RECORD_END, FIELD_END = "\x02", "\x01"
FIELDS = (
    *("type", "time", "region", "producer_group", "real_topic", "transaction_id", "tags", "keys", "store_host"),
    *("message_type", "transaction", "state", "is_from_check"),
)
KEPT = ("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp", "content_hash")
NULL_TEXT = "null"  # what Java writes of a field that is not set
SHOWN = 200
# A client closes a message at 128,000 bytes (AsyncTraceDispatcher). All records of one are held at once.
MOST_BYTES = 1 << 20


def end_traces(records: DataFrame) -> DataFrame:
    """One row per usable EndTransaction record, of those that `trace_records` gives.

    Columns  KEPT, position (of the record in its message), transaction_id, producer_group, real_topic, state,
             is_from_check, ended_timestamp, client (where the trace message came from), store_host
    Source   TraceDataEncoder.encoderFromContextBean; msgId is the UNIQ_KEY of the half, and no broker has confirmed it
    """
    return records.where("not is_odd").select(
        *KEPT,
        "position",
        "transaction_id",
        "producer_group",
        F.nullif("real_topic", F.lit(NULL_TEXT)).alias("real_topic"),
        "state",
        "is_from_check",
        "ended_timestamp",
        F.col("born_host").alias("client"),
        F.nullif("store_host", F.lit(NULL_TEXT)).alias("store_host"),
    )


def trace_faults(messages: DataFrame, records: DataFrame) -> DataFrame:
    """Messages too large to be read, or with a record that cannot be used: as `messages`, with reason and detail."""
    place = ["broker_name", "topic", "queue_id", "queue_offset"]
    odd = records.where("is_odd").groupBy(*place).agg(F.min_by("record", "position").alias("record"))
    shown = F.left(F.translate("record", FIELD_END, "|"), F.lit(SHOWN))
    why = fault(F.lit(True), "TRACE_RECORD", F.concat(F.lit("a record of an end that cannot be read: "), shown))
    named = odd.select(*place, why["reason"].alias("reason"), why["detail"].alias("detail"))
    size = F.octet_length("body")
    too_large = F.concat(F.lit("a body of "), size.cast("string"), F.lit(f" bytes, and {MOST_BYTES} are the most"))
    large = fault(size > MOST_BYTES, "TRACE_BODY_TOO_LARGE", too_large)
    unread = messages.withColumns({"reason": large["reason"], "detail": large["detail"]}).where("reason is not null")
    return messages.drop("reason", "detail").join(named, on=place, how="inner").unionByName(unread)


def trace_records(messages: DataFrame) -> DataFrame:
    """One row per EndTransaction record of each message, in the order written; all other records are passed over.

    Of a message larger than MOST_BYTES none is read.

    Columns  KEPT, born_host, position, record, what `end_traces` gives (null where it cannot be read), is_odd
    """
    text = F.when(F.octet_length("body") <= MOST_BYTES, F.make_valid_utf8(F.col("body").cast("string")))
    numbered = F.transform(
        F.split(text, RECORD_END), lambda record, at: F.struct(at.alias("position"), record.alias("record"))
    )
    ends = F.filter(numbered, lambda each: each["record"].startswith(TRACE_END + FIELD_END))
    records = messages.select(*KEPT, "born_host", F.explode(ends).alias("_end")).select(
        *KEPT, "born_host", "_end.position", "_end.record"
    )
    fields = F.split("record", FIELD_END)
    parts = {name: F.get(fields, F.lit(at)) for at, name in enumerate(FIELDS)}
    state = F.create_map(*[F.lit(word) for pair in LOCAL_STATES.items() for word in pair])[parts["state"]]
    millis = F.when(parts["time"].rlike(r"^[0-9]{1,18}\z"), parts["time"].try_cast("bigint"))
    decoded = records.withColumns(
        {
            "producer_group": parts["producer_group"],
            "real_topic": parts["real_topic"],
            "transaction_id": parts["transaction_id"],
            "store_host": parts["store_host"],
            "state": state,
            "is_from_check": parts["is_from_check"].try_cast("boolean"),
            "ended_timestamp": timestamp_of(millis),
        }
    )
    return decoded.withColumn("is_odd", _is_odd())


def _is_odd() -> Column:
    """A record without what it is worth keeping for. What later versions write behind the last field is no fault."""
    missing = [F.col(name).isNull() for name in ("state", "is_from_check", "ended_timestamp")]
    unnamed = F.coalesce(F.col("transaction_id").isin("", NULL_TEXT), F.lit(True))
    groupless = F.coalesce(F.col("producer_group").isin("", NULL_TEXT), F.lit(True))
    return missing[0] | missing[1] | missing[2] | unnamed | groupless
