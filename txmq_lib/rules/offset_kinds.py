"""Consumer queues by what their reports ask for: most have no set and one client: a sequence of numbers. Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from txmq_lib.names import EVENT_ORDER, OFFSET_KEY

# Reports of one place are told apart by what they say; a set first, so that the others stand on it.
TOTAL_ORDER = (*EVENT_ORDER, "is_increase_only", "next_offset", "client_id")
# What is left of a key as `folded_plain` and rules.offsets find it, with the one client that its reports name.
_MOVES = "array<struct<ts: timestamp, from_offset: bigint, to_offset: bigint, client_id: string>>"
FOLDED_DDL = (
    "broker_name string, consumer_group string, topic string, queue_id int, next_offset bigint,"
    " updated_timestamp timestamp, last_report struct<ts: timestamp, landed_pass: bigint, landing_order: bigint>,"
    " client_id string, report_count bigint, ignored_count bigint, only_client string, reset_timestamp timestamp,"
    f" late_count bigint, rewind_count bigint, rewinds {_MOVES}, rewound_from_offset bigint, jump_count bigint,"
    f" jumps {_MOVES}"
)


def queue_kinds(seeds: DataFrame, reports: DataFrame) -> DataFrame:
    """One row per key (OFFSET_KEY) of `reports`, which go on from the state rows `seeds` (rules.offsets.rolled_up).

    is_plain     neither of the next two, and no other key has its key_hash: such reports are a sequence of numbers
    has_sets     a set is among the reports, or a report may still jump after the newest rewind
    has_clients  reports of several clients, or of one and of nobody, could be in conflict
    key_hash     stands for the key where millions of rows are looked up, shuffled and sorted
    only_client  the one client of reports that cannot be; null where none is named
    known        next_offset, updated_timestamp and client_id of the state row; null where there is none
    """
    per_key = reports.select(
        *OFFSET_KEY, "client_id", (~F.col("is_increase_only")).alias("is_set"), F.lit(True).alias("is_new")
    )
    kept = seeds.select(
        *OFFSET_KEY,
        F.explode_outer("recent_reports.client_id").alias("client_id"),
        F.col("rewound_from_offset").isNotNull().alias("is_set"),
        F.lit(False).alias("is_new"),
    )
    # By client first: texts can be counted, but not compared, without a sort.
    clients = (
        per_key.unionByName(kept)
        .groupBy(*OFFSET_KEY, "client_id")
        .agg(F.max("is_set").alias("is_set"), F.max("is_new").alias("is_new"))
    )
    queues = clients.groupBy(*OFFSET_KEY).agg(
        F.max("is_set").alias("has_sets"),
        F.count("client_id").alias("clients"),
        F.max(F.col("is_new") & F.col("client_id").isNull()).alias("has_nameless"),
        F.min("client_id").alias("client"),
    )
    has_clients = (F.col("clients") > 1) | (F.col("clients") > 0) & F.col("has_nameless")
    known = seeds.select(*OFFSET_KEY, F.struct("next_offset", "updated_timestamp", "client_id").alias("known"))
    hashed = queues.withColumns({"has_clients": has_clients, "key_hash": F.xxhash64(*OFFSET_KEY)})
    is_alone = F.count("*").over(Window.partitionBy("key_hash")) == 1
    is_plain = is_alone & ~F.col("has_sets") & ~F.col("has_clients")
    return (
        hashed.withColumn("is_plain", is_plain)
        .join(known, list(OFFSET_KEY), "left")
        .select(
            *OFFSET_KEY,
            *("is_plain", "has_sets", "has_clients", "key_hash"),
            F.when(~F.col("has_clients"), F.col("client")).alias("only_client"),
            "known",
        )
    )


def of_kind(rows: DataFrame, kinds: DataFrame, kind: str) -> DataFrame:
    """`rows` of the keys for which the condition `kind` on queue_kinds is true."""
    return rows.join(F.broadcast(kinds.where(kind).select(*OFFSET_KEY)), list(OFFSET_KEY), "left_semi")


def folded_plain(reports: DataFrame, kinds: DataFrame) -> DataFrame:
    """What rules.offsets.rolled_up finds in the reports of plain keys, each the maximum of all before it (R84).

    Columns  OFFSET_KEY, next_offset, updated_timestamp, last_report, client_id, report_count, ignored_count
    """
    plain = kinds.where("is_plain")
    starts = F.broadcast(plain.select("key_hash", F.col("known.next_offset").alias("known_offset")))
    # One client says all of these: who it was need not be sorted along.
    events = reports.select(F.xxhash64(*OFFSET_KEY).alias("key_hash"), *EVENT_ORDER, "next_offset")
    in_order = Window.partitionBy("key_hash").orderBy(*EVENT_ORDER, "next_offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    held = F.greatest(F.max("next_offset").over(before), "known_offset")
    has_moved = F.coalesce(F.col("next_offset") > F.col("held"), F.lit(True))
    is_last = F.lead("ts").over(in_order).isNull()
    judged = events.join(starts, "key_hash").withColumns({"held": held, "is_last": is_last})
    # Of numbers alone: structs would be compared one by one, outside of compiled code.
    totals = (
        judged.withColumn("has_moved", has_moved)
        .groupBy("key_hash")
        .agg(
            F.max("next_offset").alias("highest"),
            F.max(F.when(F.col("has_moved"), F.col("ts"))).alias("moved_ts"),
            *[F.max(F.when(F.col("is_last"), F.col(name))).alias(name) for name in EVENT_ORDER],
            F.count("*").alias("report_count"),
            F.count_if(~F.col("has_moved")).alias("ignored_count"),
        )
    )
    is_moved = F.col("moved_ts").isNotNull()
    return totals.join(plain, "key_hash").select(
        *OFFSET_KEY,
        F.greatest("highest", "known.next_offset").alias("next_offset"),
        F.coalesce("moved_ts", "known.updated_timestamp").alias("updated_timestamp"),
        F.struct(*EVENT_ORDER).alias("last_report"),
        F.when(is_moved, F.col("only_client")).otherwise(F.col("known.client_id")).alias("client_id"),
        "report_count",
        "ignored_count",
    )


def with_single_clients(folded: DataFrame, kinds: DataFrame) -> DataFrame:
    """`folded` with conflict_count and recent_reports of keys with one client: its last report may still be surpassed.

    Elsewhere they stay as rules.offset_conflicts found them.
    """
    single = kinds.where("only_client is not null").select(*OFFSET_KEY, "only_client")
    return of_single_clients(folded.join(single, list(OFFSET_KEY), "left"))


def of_single_clients(folded: DataFrame) -> DataFrame:
    """`folded` where `only_client` names the one client of a key, which is dropped (with_single_clients)."""
    last = F.struct("last_report.*", F.col("only_client").alias("client_id"), F.lit(False).alias("is_conflict"))
    is_single = F.col("only_client").isNotNull()
    return (
        folded.withColumn("conflict_count", F.when(is_single, F.lit(0)).otherwise(F.col("conflict_count")))
        .withColumn("recent_reports", F.when(is_single, F.array(last)).otherwise(F.col("recent_reports")))
        .drop("only_client")
    )
