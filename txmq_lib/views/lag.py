"""What a consumer group does with its queues, judged over a window of its history. The window is given.

Judged as of the newest thing that landed of a broker, not by the clock: landing that is behind makes no group look
stopped. A queue is in trouble only where a message has waited for a whole window; so a slow topic is never, however
seldom its group reports, and a message that has just come never is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from txmq_lib import names
from txmq_lib.views.columns import in_utc, utc
from txmq_lib.views.reader import Scan, Span, WarehouseReader, sql_literal

FRONTIER = ("broker_name", "topic", "queue_id", "next_offset", "lowest_kept_offset")
POSITION_NEEDS = ("broker_name", "topic", "queue_id", "next_offset")
# Where the next offset lies in its queue (R101).
POSITIONS_RELATION = f"""(
    SELECT base.*, f.next_offset AS highest_offset, f.lowest_kept_offset,
        CASE WHEN f.next_offset IS NOT NULL THEN greatest(f.next_offset - base.next_offset, 0) END AS lag,
        CASE WHEN f.next_offset IS NULL THEN '{names.OFFSET_UNKNOWN}'
             WHEN base.next_offset > f.next_offset THEN '{names.OFFSET_BEYOND_END}'
             WHEN base.next_offset < f.lowest_kept_offset THEN '{names.OFFSET_BELOW_OLDEST}'
             ELSE '{names.OFFSET_OK}' END AS state
    FROM base LEFT JOIN frontier AS f USING (broker_name, topic, queue_id))"""

# So many queues are looked up by their next offsets; for more, all messages are looked through.
MOST_LOOKED_UP = 200
QUEUE = "broker_name, consumer_group, topic, queue_id"


@dataclass(frozen=True)
class LagWindow:
    """As of when lag is judged at the latest, and over how long."""

    now: datetime
    span_ms: int


def lag_relation(window: LagWindow) -> str:
    """Every consumer queue with its lag and what its group does with it, and queues a group left out, as SQL.

    Over `base` (what the view `offsets` needs, and more) and the scans of `lag_scans`. First match wins; `begin` is a
    window before the newest thing landed of the broker:

    ahead_of_queue   next offset beyond the end, and that is the end: the source tells it, or messages landed since
    below_oldest     retention has passed it
    unknown          the end is not known, or what waits for a window has too short a history to judge
    rewound          set back within the window, and not back where it was
    fine             nothing waits, or nothing that was stored by `begin`
    stalled          did not move since `begin`, and still reports
    stopped          did not move since `begin`, and reports nothing
    falling_behind   moves, and lag is larger than at `begin`
    fine             moves, and lag is not larger
    never_committed  the group reports other queues of the topic, and never this one, which has messages
    """
    now, span = _literal(window.now), f"to_milliseconds({window.span_ms})"
    return f"""(
    -- Named once each: a scan may be a stream.
    WITH known AS MATERIALIZED (SELECT * FROM reporting),
    ends AS MATERIALIZED (SELECT * FROM queues),
    clocks AS (
        SELECT broker_name, least({now}, max(seen)) AS judged_timestamp, judged_timestamp - {span} AS begin,
            max(seen) FILTER (is_stored) AS stored_until
        FROM (SELECT broker_name, highest_store_timestamp AS seen, true AS is_stored FROM ends
            UNION ALL SELECT broker_name, last_report_timestamp, false FROM known)
        GROUP BY ALL),
    placed AS (
        SELECT p.*, c.* EXCLUDE (broker_name), coalesce(f.is_end_known, false) AS is_end_known
        FROM {POSITIONS_RELATION} AS p LEFT JOIN clocks AS c USING (broker_name)
        LEFT JOIN ends AS f USING (broker_name, topic, queue_id)),
    reported AS (
        SELECT {QUEUE}, ts, next_offset, begin, row(ts, landed_pass, landing_order) AS place,
            max(CASE WHEN NOT is_increase_only THEN row(ts, landed_pass, landing_order) END)
                FILTER (ts <= begin) OVER (PARTITION BY {QUEUE}) AS set_at
        FROM reports JOIN clocks USING (broker_name) WHERE ts <= judged_timestamp),
    -- What was held is the newest set's offset, or a larger one reported after it (R84, R102).
    told AS (
        SELECT {QUEUE}, min(ts) FILTER (ts > begin) AS first_ts,
            max(next_offset) FILTER (ts <= begin AND (set_at IS NULL OR place >= set_at)) AS offset_before,
            arg_min(next_offset, place) FILTER (ts > begin) AS first_offset
        FROM reported GROUP BY ALL),
    started AS (
        SELECT p.*,
            CASE WHEN updated_timestamp <= begin OR offset_before IS NOT NULL THEN begin ELSE first_ts END AS then_ts,
            CASE WHEN updated_timestamp <= begin THEN next_offset ELSE coalesce(offset_before, first_offset)
                END AS then_offset
        FROM placed AS p LEFT JOIN told USING ({QUEUE})),
    passed AS (
        SELECT {QUEUE}, min(m.queue_offset) FILTER (m.store_timestamp > begin) AS end_at_begin,
            min(m.queue_offset) FILTER (m.store_timestamp > then_ts) AS end_then
        FROM started AS s JOIN stored AS m USING (broker_name, topic, queue_id) WHERE s.lag > 0 GROUP BY ALL),
    waited AS (
        SELECT {QUEUE}, min(m.store_timestamp) AS waiting_since
        FROM started AS s JOIN waiting AS m USING (broker_name, topic, queue_id)
        WHERE s.lag > 0 AND m.queue_offset = s.next_offset GROUP BY ALL),
    judged AS (
        SELECT s.*, waiting_since, coalesce(end_at_begin, highest_offset) AS end_at_begin,
            coalesce(end_then, highest_offset) AS end_then, rewinds[-1] AS last_rewind
        FROM started AS s LEFT JOIN passed USING ({QUEUE}) LEFT JOIN waited USING ({QUEUE})),
    missed AS (
        SELECT DISTINCT k.broker_name, k.consumer_group, e.topic, e.queue_id, e.next_offset AS highest_offset,
            e.lowest_kept_offset
        FROM known AS k JOIN ends AS e USING (broker_name, topic)
        -- Queue -1 stands for how far a log was read.
        WHERE e.queue_id >= 0 AND e.next_offset > 0 AND NOT EXISTS (
            SELECT 1 FROM known AS o WHERE o.broker_name = k.broker_name AND o.consumer_group = k.consumer_group
                AND o.topic = e.topic AND o.queue_id = e.queue_id))
    SELECT * EXCLUDE (begin, stored_until, is_end_known, then_ts, then_offset, waiting_since, end_at_begin, end_then,
            last_rewind),
        CASE WHEN lag = 0 OR waiting_since > judged_timestamp THEN 0
            ELSE epoch_ms(judged_timestamp) - epoch_ms(waiting_since) END AS lag_ms,
        CASE WHEN state = '{names.OFFSET_BEYOND_END}'
             THEN CASE WHEN is_end_known OR updated_timestamp <= stored_until THEN '{names.LAG_AHEAD}'
                  ELSE '{names.LAG_UNKNOWN}' END
             WHEN state = '{names.OFFSET_BELOW_OLDEST}' THEN '{names.LAG_BELOW_OLDEST}'
             WHEN state = '{names.OFFSET_UNKNOWN}' THEN '{names.LAG_UNKNOWN}'
             WHEN last_rewind.ts > begin AND next_offset < last_rewind.from_offset THEN '{names.LAG_REWOUND}'
             WHEN lag = 0 OR next_offset >= end_at_begin THEN '{names.LAG_FINE}'
             WHEN then_ts IS NULL OR (next_offset <= then_offset AND then_ts > begin) THEN '{names.LAG_UNKNOWN}'
             WHEN next_offset <= then_offset AND last_report_timestamp > begin THEN '{names.LAG_STALLED}'
             WHEN next_offset <= then_offset THEN '{names.LAG_STOPPED}'
             WHEN lag > end_then - then_offset THEN '{names.LAG_FALLING_BEHIND}'
             ELSE '{names.LAG_FINE}' END AS lag_state,
        ends_with(consumer_group, '{names.BROADCAST_SUFFIX}') AS is_broadcast
    FROM judged
    UNION ALL BY NAME
    SELECT *, '{names.OFFSET_UNKNOWN}' AS state, '{names.LAG_NEVER_COMMITTED}' AS lag_state, 0 AS rewind_count,
        ends_with(consumer_group, '{names.BROADCAST_SUFFIX}') AS is_broadcast
    FROM missed)"""


def lag_scans(reader: WarehouseReader, window: LagWindow) -> dict[str, Scan]:
    """What `lag_relation` reads beside `base`: all of it unfiltered, whatever is asked of the view.

    Of reports and messages only the last windows, told by the statistics of their files; of messages also those at the
    next offsets of queues that lag.
    """
    since = _oldest_moment(reader, window)
    place = ("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp")
    reports = (*QUEUE.split(", "), "ts", "landed_pass", "landing_order", "next_offset", "is_increase_only")
    return {
        "frontier": Scan("landing_frontier", FRONTIER),
        "queues": Scan("landing_frontier", (*FRONTIER, "is_end_known", "highest_store_timestamp")),
        "reporting": Scan("consumer_offset", (*QUEUE.split(", "), "last_report_timestamp")),
        "reports": Scan("consumer_offset_commit", reports, span=Span("ts", since)),
        "stored": Scan("message", place, span=Span("store_timestamp", since)),
        "waiting": Scan("message", place, where=_next_offsets(reader)),
    }


def _oldest_moment(reader: WarehouseReader, window: LagWindow) -> datetime:
    # Two windows: what was reported last before the judged one begins.
    sql = f"""
        SELECT {utc("min(seen)")} FROM (SELECT least(max(seen), $now) AS seen FROM (
            SELECT broker_name, highest_store_timestamp AS seen FROM clock
            UNION ALL SELECT broker_name, last_report_timestamp FROM known) GROUP BY broker_name)"""
    scans = {
        "clock": Scan("landing_frontier", ("broker_name", "highest_store_timestamp")),
        "known": Scan("consumer_offset", ("broker_name", "last_report_timestamp")),
    }
    ((seen,),) = reader.query(sql, {"now": window.now}, scans)
    return (in_utc(seen) or window.now) - 2 * timedelta(milliseconds=window.span_ms)


def _next_offsets(reader: WarehouseReader) -> tuple[dict[str, list[str | int]], ...]:
    sql = f"""SELECT topic, queue_id, next_offset FROM {POSITIONS_RELATION} WHERE lag > 0 LIMIT {MOST_LOOKED_UP + 1}"""
    scans = {"base": Scan("consumer_offset", POSITION_NEEDS), "frontier": Scan("landing_frontier", FRONTIER)}
    lagging = list(reader.query(sql, [], scans))
    if not 0 < len(lagging) <= MOST_LOOKED_UP:
        return ()
    return tuple({"topic": [topic], "queue_id": [queue], "queue_offset": [offset]} for topic, queue, offset in lagging)


def _literal(moment: datetime) -> str:
    return f"TIMESTAMPTZ {sql_literal(moment.isoformat())}"
