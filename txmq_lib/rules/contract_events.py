"""The landing contract for ends, offset reports and acknowledgements (docs/pages/reference/landing.md). Pure.

Numbers may come as strings.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.rules.json_lines import (
    LINE_COLUMNS,
    fault,
    is_no_text,
    json_faults,
    negative_fault,
    parsed_lines,
    time_fault,
    verdict_columns,
)
from txmq_lib.rules.moments import timestamp_of

END_NUMBERS = {
    "ts": "bigint",
    "tranStateTableOffset": "bigint",
    "commitLogOffset": "bigint",
    "commitOrRollback": "int",
}
END_TEXTS = ("producerGroup", "msgId", "transactionId", "bname", "topic")
OFFSET_NUMBERS = {"ts": "bigint", "queueId": "int", "offset": "bigint"}
ACK_NUMBERS = {"ts": "bigint", "queueId": "int"}
ACK_TEXTS = ("group", "topic", "clientId", "event")
ACK_EVENTS = ("allocated", "taken", "acked", "dropped")
# What makes two ends equal.
END_CONTENT = (
    "ts",
    "producer_group",
    "tran_state_table_offset",
    "commit_log_offset",
    "commit_or_rollback",
    "from_transaction_check",
    "msg_id",
    "transaction_id",
    "topic",
)
NO_OFFSETS = "CAST(array() AS array<bigint>)"


def end_rows(lines: DataFrame, broker_name: str) -> DataFrame:
    """END_TRANSACTION requests, flat or under `header` (R11); `broker_name` is used where `bname` is absent."""
    names = [name for name in (*END_NUMBERS, *END_TEXTS, "fromTransactionCheck") if name != "ts"]
    texts = {**dict.fromkeys(["ts", *names], "string"), "header": "map<string,string>"}
    parsed = parsed_lines(lines, texts, "p")
    flat = parsed.select(
        *LINE_COLUMNS,
        "o",
        F.struct(
            F.col("p.ts").alias("ts"),
            *[F.coalesce(F.col("p.header")[name], F.col(f"p.{name}")).alias(name) for name in names],
        ).alias("t"),
    )
    typed = _typed(flat, END_NUMBERS, END_TEXTS)
    is_check = _boolean(F.col("t.fromTransactionCheck"), default=False)
    checks = [
        *_text_faults((*END_NUMBERS, "producerGroup"), texts=END_TEXTS, under=("header.", "")),
        fault(is_check.isNull(), "WRONG_TYPE", F.lit("fromTransactionCheck")),
        negative_fault("m", ["tranStateTableOffset", "commitLogOffset"]),
        time_fault("m", ["ts"]),
        fault(
            F.col("m.bname") != broker_name,
            "BROKER_MISMATCH",
            F.concat(F.lit("bname is "), F.col("m.bname"), F.lit(f", landed for {broker_name}")),
        ),
    ]
    return typed.select(
        F.lit(broker_name).alias("broker_name"),
        timestamp_of(F.col("m.ts")).alias("ts"),
        F.col("m.producerGroup").alias("producer_group"),
        F.col("m.tranStateTableOffset").alias("tran_state_table_offset"),
        F.col("m.commitLogOffset").alias("commit_log_offset"),
        F.col("m.commitOrRollback").alias("commit_or_rollback"),
        is_check.alias("from_transaction_check"),
        F.col("m.msgId").alias("msg_id"),
        F.col("m.transactionId").alias("transaction_id"),
        F.col("m.topic").alias("topic"),
        *verdict_columns(checks),
        *("source", "position"),
    )


def offset_rows(lines: DataFrame, broker_name: str) -> DataFrame:
    """Offset reports (R102): increase-only unless `increaseOnly` is false."""
    texts = dict.fromkeys([*OFFSET_NUMBERS, "group", "topic", "increaseOnly", "clientId"], "string")
    parsed = parsed_lines(lines, texts, "t")
    typed = _typed(parsed, OFFSET_NUMBERS, ("group", "topic", "increaseOnly", "clientId"))
    is_increase_only = _boolean(F.col("t.increaseOnly"), default=True)
    checks = [
        *_text_faults((*OFFSET_NUMBERS, "group", "topic"), texts=("group", "topic", "clientId")),
        fault(is_increase_only.isNull(), "WRONG_TYPE", F.lit("increaseOnly")),
        negative_fault("m", ["queueId", "offset"]),
        time_fault("m", ["ts"]),
    ]
    return typed.select(
        *_queue_columns(broker_name),
        F.col("m.offset").alias("next_offset"),
        is_increase_only.alias("is_increase_only"),
        F.col("m.clientId").alias("client_id"),
        *verdict_columns(checks),
        "source",
        "position",
    )


def ack_rows(lines: DataFrame, broker_name: str) -> DataFrame:
    """What a consumer did with a queue: allocated, taken, acked, dropped (R107)."""
    texts = {**dict.fromkeys([*ACK_NUMBERS, *ACK_TEXTS], "string"), "offsets": "array<string>"}
    parsed = parsed_lines(lines, texts, "t")
    typed = _typed(parsed, ACK_NUMBERS, ACK_TEXTS)
    needs_offsets = F.col("m.event").isin("taken", "acked")
    offsets = F.transform("t.offsets", lambda offset: offset.try_cast("bigint"))
    checks = [
        *_text_faults((*ACK_NUMBERS, *ACK_TEXTS), texts=ACK_TEXTS),
        fault(~F.col("m.event").isin(*ACK_EVENTS), "UNKNOWN_EVENT", F.col("m.event")),
        fault(
            F.col("t._corrupt").isNotNull() | F.exists(offsets, lambda offset: offset.isNull()),
            "WRONG_TYPE",
            F.lit("offsets"),
        ),
        fault(needs_offsets & offsets.isNull(), "MISSING_FIELD", F.lit("offsets")),
        negative_fault("m", ["queueId"]),
        fault(F.exists(offsets, lambda offset: offset < 0), "NEGATIVE_NUMBER", F.lit("offsets")),
        time_fault("m", ["ts"]),
    ]
    return typed.select(
        *_queue_columns(broker_name),
        F.col("m.clientId").alias("client_id"),
        F.col("m.event").alias("event"),
        F.when(needs_offsets, offsets).otherwise(F.expr(NO_OFFSETS)).alias("offsets"),
        *verdict_columns(checks),
        "source",
        "position",
    )


def _typed(parsed: DataFrame, numbers: dict[str, str], texts: tuple[str, ...]) -> DataFrame:
    fields = [F.col(f"t.{name}").try_cast(type_).alias(name) for name, type_ in numbers.items()]
    others = [F.col(f"t.{name}").alias(name) for name in texts]
    return parsed.withColumn("m", F.struct(*fields, *others))


def _text_faults(required: tuple[str, ...], *, texts: tuple[str, ...], under: tuple[str, ...] = ("",)) -> list[Column]:
    # The texts are looked up in `t`, so a header's fields count as present too.
    broken = json_faults("o", "m", {})[0]
    absent = [F.when(F.col(f"t.{name}").isNull(), F.lit(name)) for name in required]
    unread = [
        F.when(F.col(f"t.{name}").isNotNull() & F.col(f"m.{name}").isNull(), F.lit(name))
        for name in required
        if name not in texts
    ]
    untold = [
        F.when(is_no_text(F.col(f"t.{name}"), [f"$.{place}{name}" for place in under]), F.lit(name)) for name in texts
    ]
    missing, odd = F.array_compact(F.array(*absent)), F.array_compact(F.array(*unread, *untold))
    return [
        broken,
        fault(F.size(missing) > 0, "MISSING_FIELD", F.concat_ws(", ", missing)),
        fault(F.size(odd) > 0, "WRONG_TYPE", F.concat_ws(", ", odd)),
    ]


def _boolean(text: Column, *, default: bool) -> Column:
    lowered = F.lower(text)
    known = F.when(lowered == "true", F.lit(True)).when(lowered == "false", F.lit(False))
    return F.when(text.isNull(), F.lit(default)).otherwise(known)


def _queue_columns(broker_name: str) -> list[Column]:
    return [
        F.lit(broker_name).alias("broker_name"),
        F.col("m.group").alias("consumer_group"),
        F.col("m.topic").alias("topic"),
        F.col("m.queueId").alias("queue_id"),
        timestamp_of(F.col("m.ts")).alias("ts"),
    ]
