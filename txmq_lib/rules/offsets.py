"""Consumer offsets: what reports and resets of one queue, taken in event order, leave as the next offset. Pure.

Events of one key (OFFSET_KEY) are ordered by (ts, landed_pass, landing_order): as they happened, not as they landed.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from txmq_lib.names import (
    EVENT_ORDER,
    OFFSET_KEY,
    ORIGIN_ACK,
)
from txmq_lib.rules.offset_conflicts import conflicts_per_queue
from txmq_lib.rules.offset_kinds import TOTAL_ORDER, folded_plain, of_kind, of_single_clients, with_single_clients

LISTED = 100
LAST_REPORT = ("last_report_timestamp", "last_report_landed_pass", "last_report_landing_order")


def reports_not_rolled_up(state: DataFrame, reports: DataFrame) -> DataFrame:
    """`reports` without those that an earlier rollup found from acknowledgements and rolled up at once.

    Such a row lands in consumer_offset_commit after the pass that used it, so it comes again as a new row.
    """
    known = state.select(*OFFSET_KEY, F.struct(*LAST_REPORT).alias("last_report"))
    place = F.struct(*[F.col(name).alias(last) for name, last in zip(EVENT_ORDER, LAST_REPORT, strict=True)])
    is_old = (F.col("origin") == ORIGIN_ACK) & F.coalesce(place <= F.col("last_report"), F.lit(False))
    return reports.join(known, list(OFFSET_KEY), "left").where(~is_old).select(*reports.columns)


def queues_to_replay(state: DataFrame, reports: DataFrame) -> DataFrame:
    """Keys (OFFSET_KEY, distinct) whose state row is not enough to judge `reports`: they need their whole history.

    That is where a report is not ordered after the newest one rolled up, or where too many recent ones had to be kept.
    """
    first = F.min(F.struct(*[F.col(name).alias(last) for name, last in zip(EVENT_ORDER, LAST_REPORT, strict=True)]))
    new = reports.groupBy(*OFFSET_KEY).agg(
        first.alias("first"), F.max(F.col("client_id").isNotNull()).alias("has_client")
    )
    known = state.select(*OFFSET_KEY, F.struct(*LAST_REPORT).alias("last_report"), "recent_reports")
    is_unclear = (F.col("first") <= F.col("last_report")) | (F.col("recent_reports").isNull() & F.col("has_client"))
    return new.join(known, list(OFFSET_KEY)).where(is_unclear).select(*OFFSET_KEY)


def starting_points(state: DataFrame, reports: DataFrame, history: DataFrame) -> tuple[DataFrame, DataFrame]:
    """What `rolled_up` needs for the keys of `reports`: the state rows to go on from, and the reports to judge.

    A key of `queues_to_replay` starts again without a state row from `history`, which holds every report of it, these
    included; any other goes on from its state row with its `reports` alone.
    """
    replayed = queues_to_replay(state, reports)
    again = history.join(replayed, list(OFFSET_KEY), "left_semi").select(*reports.columns)
    seeds = state.join(reports, list(OFFSET_KEY), "left_semi").join(replayed, list(OFFSET_KEY), "left_anti")
    return seeds, reports.join(replayed, list(OFFSET_KEY), "left_anti").unionByName(again)


def rolled_up(
    seeds: DataFrame, reports: DataFrame, *, conflict_window_ms: int, kinds: DataFrame | None = None
) -> DataFrame:
    """The consumer_offset row of every key of `reports`, without redelivery_count and pass_number.

    Every report of a key in `seeds` (consumer_offset rows) is ordered after that row's newest one; then the outcome is
    that of one run over everything (`starting_points`). Over many reports, `kinds` (rules.offset_kinds.queue_kinds of
    these, sent to every task) spares most keys what only some need; the outcome is the same.

    Rule     R84, R102: next_offset is the newest set's offset, then the max with the increase-only reports ordered
             after it; without a set, the max of all. Unlike a broker's, a set that goes back is listed (rewinds).
    jumps    the first report to move a rewound value, increase-only and at or above what was held before the rewind.
    late     landed after a set that is ordered after it; it cannot change next_offset, and is ignored.
    """
    if kinds is None:
        return _added(
            seeds, _conflicts_joined(_totals(_judged(_fold(seeds, reports))), seeds, reports, conflict_window_ms)
        )
    (seeds_of_others, others), (seeds_of_clients, clients) = (
        [of_kind(rows, kinds, kind) for rows in (seeds, reports)] for kind in ("not is_plain", "has_clients")
    )
    folded = _totals(_judged(_fold(seeds_of_others, others)))
    folded = folded.unionByName(folded_plain(reports, kinds), allowMissingColumns=True)
    folded = _conflicts_joined(folded, seeds_of_clients, clients, conflict_window_ms)
    return _added(seeds, with_single_clients(folded, kinds))


def rolled_up_folded(state: DataFrame, folded: DataFrame) -> DataFrame:
    """The rows that `rolled_up` makes of keys of one client, folded elsewhere (rules.offset_kinds.FOLDED_DDL).

    state  rows of consumer_offset; keys that are in it were folded onto them
    """
    missing = [field for field in state.schema if field.name not in {*folded.columns, *LAST_REPORT}]
    nulls = {field.name: F.lit(None).cast(field.dataType) for field in missing}
    return _added(state, of_single_clients(folded.withColumns(nulls)))


def _conflicts_joined(folded: DataFrame, seeds: DataFrame, reports: DataFrame, window_ms: int) -> DataFrame:
    return folded.join(conflicts_per_queue(seeds, reports, window_ms=window_ms), list(OFFSET_KEY), "left")


def _fold(seeds: DataFrame, reports: DataFrame) -> DataFrame:
    # A state row takes part as the event that all new ones follow.
    start = seeds.select(
        *OFFSET_KEY,
        *[F.col(last).alias(name) for name, last in zip(EVENT_ORDER, LAST_REPORT, strict=True)],
        "next_offset",
        F.lit(True).alias("is_increase_only"),
        "client_id",
        "updated_timestamp",
        "rewound_from_offset",
    )
    events = reports.select(*OFFSET_KEY, *TOTAL_ORDER, F.lit(False).alias("is_seed")).unionByName(
        start.withColumn("is_seed", F.lit(True)), allowMissingColumns=True
    )
    in_order = Window.partitionBy(*OFFSET_KEY).orderBy(*TOTAL_ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_set = ~F.col("is_increase_only")
    return (
        events.withColumn("set_number", F.count(F.when(is_set, 1)).over(so_far))
        # Set numbers only grow, so the largest pair is the largest offset since the newest set.
        .withColumn("value", F.max(F.struct("set_number", "next_offset")).over(so_far)["next_offset"])
        .withColumn("held", F.lag("value").over(in_order))
        .withColumn("has_moved", F.col("is_seed") | F.col("held").isNull() | (F.col("value") != F.col("held")))
        .withColumn("is_rewind", is_set & F.coalesce(F.col("value") < F.col("held"), F.lit(False)))
    )


def _judged(events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*OFFSET_KEY).orderBy(*TOTAL_ORDER)
    newest_first = Window.partitionBy(*OFFSET_KEY).orderBy(*[F.desc(name) for name in TOTAL_ORDER])
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    after = newest_first.rowsBetween(Window.unboundedPreceding, -1)
    landing = F.struct("landed_pass", "landing_order")
    rewound_from = F.when(F.col("is_seed"), F.col("rewound_from_offset")).when(F.col("is_rewind"), F.col("held"))
    last_move = F.last(F.when(F.col("has_moved"), F.struct("rewound_from_offset")), ignorenulls=True)
    is_jump = (
        ~F.col("is_seed")
        & F.col("is_increase_only")
        & F.col("has_moved")
        & F.coalesce(F.col("next_offset") >= F.col("last_move.rewound_from_offset"), F.lit(False))
    )
    earliest_later_set = F.min(F.when(~F.col("is_increase_only"), landing)).over(after)
    # Columns made in one step share one window operator.
    return (
        events.withColumn("rewound_from_offset", rewound_from)
        .withColumn("last_move", last_move.over(before))
        .withColumn("is_jump", is_jump)
        .withColumns(
            {
                "is_late": ~F.col("is_seed") & F.coalesce(earliest_later_set < landing, F.lit(False)),
                "later_rewinds": F.count(F.when(F.col("is_rewind"), 1)).over(after),
                "later_jumps": F.count(F.when(F.col("is_jump"), 1)).over(after),
            }
        )
    )


def _totals(events: DataFrame) -> DataFrame:
    order = F.struct(*TOTAL_ORDER)
    moved_at = F.when(F.col("has_moved"), order)
    is_report = ~F.col("is_seed")
    is_ignored = is_report & (~F.col("has_moved") | F.col("is_late"))
    return events.groupBy(*OFFSET_KEY).agg(
        F.max_by("value", order).alias("next_offset"),
        F.max_by(F.coalesce("updated_timestamp", "ts"), moved_at).alias("updated_timestamp"),
        F.max(F.struct(*EVENT_ORDER)).alias("last_report"),
        F.max(F.when(~F.col("is_increase_only"), F.col("ts"))).alias("reset_timestamp"),
        F.max_by("client_id", moved_at).alias("client_id"),
        F.count_if(is_report).alias("report_count"),
        F.count_if(is_ignored).alias("ignored_count"),
        F.count_if("is_late").alias("late_count"),
        F.count_if("is_rewind").alias("rewind_count"),
        _newest("is_rewind", "later_rewinds").alias("rewinds"),
        F.max_by("rewound_from_offset", moved_at).alias("rewound_from_offset"),
        F.count_if("is_jump").alias("jump_count"),
        _newest("is_jump", "later_jumps").alias("jumps"),
    )


def _newest(flag: str, later: str) -> Column:
    move = F.struct("ts", F.col("held").alias("from_offset"), F.col("next_offset").alias("to_offset"), "client_id")
    kept = F.when(
        F.col(flag) & (F.col(later) < LISTED), F.struct(F.struct(*TOTAL_ORDER).alias("order"), move.alias("move"))
    )
    return F.transform(F.sort_array(F.collect_list(kept)), lambda item: item["move"])


def _added(seeds: DataFrame, folded: DataFrame) -> DataFrame:
    old, new = seeds.alias("old"), folded.alias("new")
    last = [F.col("new.last_report")[name].alias(column) for name, column in zip(EVENT_ORDER, LAST_REPORT, strict=True)]
    return new.join(old, list(OFFSET_KEY), "left").select(
        *OFFSET_KEY,
        "new.next_offset",
        "new.updated_timestamp",
        *last,
        F.coalesce("new.reset_timestamp", "old.reset_timestamp").alias("reset_timestamp"),
        "new.client_id",
        *[_sum(name) for name in ("report_count", "ignored_count", "late_count", "rewind_count")],
        _longer("rewinds"),
        "new.rewound_from_offset",
        _sum("jump_count"),
        _longer("jumps"),
        _sum("conflict_count"),
        # A report can turn out to be in conflict after a later one did.
        _longer("conflicts", F.array_sort),
        F.when(F.col("new.conflict_count").isNotNull(), F.col("new.recent_reports"))
        .when(F.col("old.last_report_timestamp").isNotNull(), F.col("old.recent_reports"))
        .otherwise(F.array())
        .alias("recent_reports"),
    )


def _sum(name: str) -> Column:
    zero = F.lit(0).cast("bigint")
    return (F.coalesce(F.col(f"old.{name}"), zero) + F.coalesce(F.col(f"new.{name}"), zero)).alias(name)


def _longer(name: str, ordered: Callable[[Column], Column] = lambda both: both) -> Column:
    parts = [F.coalesce(F.col(f"{age}.{name}"), F.array()) for age in ("old", "new")]
    both = ordered(F.concat(*parts))
    return F.slice(both, F.greatest(F.size(both) - LISTED + 1, F.lit(1)), LISTED).alias(name)
