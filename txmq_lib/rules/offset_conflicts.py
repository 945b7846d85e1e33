"""Two clients reporting one queue at once: both believe they hold it (a failed rebalance, a cloned client). Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from txmq_lib.names import EVENT_ORDER, OFFSET_KEY

LISTED = 100
# More are not kept in a state row; a queue with more replays its history instead.
MOST_RECENT_KEPT = 1000
PLACE = (*EVENT_ORDER, "client_id")


def conflicts_per_queue(state: DataFrame, reports: DataFrame, *, window_ms: int) -> DataFrame:
    """Per key with reports that name a client: conflict_count and conflicts (new ones), recent_reports.

    A report is in conflict where another client reported the queue both before and after it, these two at most
    `window_ms` apart, or at its very ts and ordered before it. Reports without a client take no part; a queue that
    only changes hands is none. `recent_reports` of `state` stand in for the reports before `reports`.
    Rule     R105, R106: a client reports each queue it holds every persist interval, and one more time on losing it.
    """
    kept = state.select(*OFFSET_KEY, F.explode("recent_reports").alias("report")).select(*OFFSET_KEY, "report.*")
    fresh = reports.where(F.col("client_id").isNotNull()).select(*OFFSET_KEY, *PLACE)
    both = (
        kept.withColumnRenamed("is_conflict", "was_conflict")
        .withColumn("is_new", F.lit(False))
        .unionByName(fresh.withColumn("was_conflict", F.lit(False)).withColumn("is_new", F.lit(True)))
    )
    judged = _with_recent(_with_conflicts(both, window_ms), window_ms)
    report = F.struct("ts", "client_id", "other_client_id")
    listed = F.when(
        F.col("is_found") & (F.col("later_found") < LISTED),
        F.struct(F.struct(*PLACE).alias("order"), report.alias("item")),
    )
    recent = F.struct("ts", "landed_pass", "landing_order", "client_id", "is_conflict")
    kept_back = F.when(F.col("is_recent") & (F.col("later_reports") <= MOST_RECENT_KEPT), recent)
    return (
        judged.groupBy(*OFFSET_KEY)
        .agg(
            F.count_if("is_found").alias("conflict_count"),
            F.transform(F.sort_array(F.collect_list(listed)), lambda item: item["item"]).alias("conflicts"),
            F.sort_array(F.collect_list(kept_back)).alias("recent_reports"),
            F.max("is_new").alias("is_new"),
        )
        .where("is_new")
        .withColumn("recent_reports", F.when(F.size("recent_reports") <= MOST_RECENT_KEPT, F.col("recent_reports")))
        .drop("is_new")
    )


def _with_conflicts(reports: DataFrame, window_ms: int) -> DataFrame:
    in_order = Window.partitionBy(*OFFSET_KEY).orderBy(*PLACE)
    of_client = Window.partitionBy(*OFFSET_KEY, "client_id").orderBy(*PLACE)
    # Ordered so that the sort of `in_order` serves here too.
    same_ts = Window.partitionBy(*OFFSET_KEY, "ts").orderBy(*PLACE[1:]).rowsBetween(Window.unboundedPreceding, -1)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_near = F.unix_millis("next_ts") - F.unix_millis("ts") <= window_ms
    # Two reports in a row by one client have none of its own between them, so whatever they span is another's.
    span = F.when(is_near, F.struct(F.col("next_place").alias("upto"), "client_id"))
    spanning = F.when(F.col("widest.upto") > F.col("place"), F.col("widest.client_id"))
    return (
        reports.withColumn("place", F.row_number().over(in_order))
        .withColumns({"next_place": F.lead("place").over(of_client), "next_ts": F.lead("ts").over(of_client)})
        .withColumn("widest", F.max(span).over(before))
        .withColumns({"least": F.min("client_id").over(same_ts), "greatest": F.max("client_id").over(same_ts)})
        .withColumn("other_client_id", F.coalesce(spanning, _other("least"), _other("greatest")))
        .withColumn("is_conflict", F.col("was_conflict") | F.col("other_client_id").isNotNull())
        .withColumn("is_found", F.col("is_conflict") & ~F.col("was_conflict"))
    )


def _with_recent(reports: DataFrame, window_ms: int) -> DataFrame:
    # Only a client's last report can begin a pair with one still to come: nothing before the oldest such is needed.
    whole = Window.partitionBy(*OFFSET_KEY)
    newest_first = whole.orderBy(*[F.desc(name) for name in PLACE]).rowsBetween(Window.unboundedPreceding, -1)
    age_ms = F.unix_millis(F.max("ts").over(whole)) - F.unix_millis("ts")
    is_open = F.col("next_place").isNull() & (age_ms <= window_ms)
    return (
        reports.withColumn("open_place", F.when(is_open, F.col("place")))
        .withColumn("is_recent", F.col("place") >= F.min("open_place").over(whole))
        .withColumns(
            {
                "later_reports": F.count("*").over(newest_first),
                "later_found": F.count(F.when(F.col("is_found"), 1)).over(newest_first),
            }
        )
    )


def _other(client_id: str) -> Column:
    return F.when(F.col(client_id) != F.col("client_id"), F.col(client_id))
