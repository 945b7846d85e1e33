"""What a consumer group does with its queues, judged over a window of its history. The window is given.

Judged as of the newest thing that landed of a broker, not by the clock: landing that is behind makes no group look
stopped. A queue is in trouble only where a message has waited for a whole window; so a slow topic is never, however
seldom its group reports, and a message that has just come never is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files

from txmq_lib import names
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, Span, sql_literal

FRONTIER = ("broker_name", "topic", "queue_id", "next_offset", "lowest_kept_offset", "is_untold")
POSITION_NEEDS = ("broker_name", "topic", "queue_id", "next_offset")
# Where the next offset lies in its queue (R101); of a queue of which its broker tells no more nobody knows the end.
POSITIONS_RELATION = f"""(
    SELECT base.*, f.next_offset AS highest_offset, f.lowest_kept_offset,
        CASE WHEN f.next_offset IS NOT NULL THEN greatest(f.next_offset - base.next_offset, 0) END AS lag,
        CASE WHEN f.next_offset IS NULL THEN '{names.OFFSET_UNKNOWN}'
             WHEN base.next_offset > f.next_offset THEN '{names.OFFSET_BEYOND_END}'
             WHEN base.next_offset < f.lowest_kept_offset THEN '{names.OFFSET_BELOW_OLDEST}'
             ELSE '{names.OFFSET_OK}' END AS state
    FROM base
    LEFT JOIN (SELECT * FROM frontier WHERE is_untold IS NOT TRUE) AS f USING (broker_name, topic, queue_id))"""

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
    pop              a POP group, whose progress is not the offset it commits (R126)
    stalled          did not move since `begin`, and still reports
    stopped          did not move since `begin`, and reports nothing
    falling_behind   moves, and lag is larger than at `begin`
    fine             moves, and lag is not larger
    never_committed  the group reports other queues of the topic, and never this one, which has messages
    """
    words = {
        name: value
        for name, value in vars(names).items()
        if name.startswith(("OFFSET_", "LAG_", "BROADCAST_", "RETRY_"))
    }
    return _sql().format(
        now=_literal(window.now),
        span=f"to_milliseconds({window.span_ms})",
        positions=POSITIONS_RELATION,
        queue=QUEUE,
        is_pop_retry=_is_pop_retry(),
        **words,
    )


@cache
def _sql() -> str:
    return files("txmq_lib.views").joinpath("lag.sql").read_text(encoding="utf-8")


def _is_pop_retry() -> str:
    """Whether `retry_topic` shows that the group of `s` consumes its topic by POP, as SQL."""
    own = f"'{names.RETRY_PREFIX}' || s.consumer_group"
    each = [
        f"retry_topic = {own} || '{separator}' || s.topic OR (retry_topic = s.topic"
        f" AND starts_with(s.topic, {own} || '{separator}'))"
        for separator in names.POP_RETRY_SEPARATORS
    ]
    return " OR ".join(each)


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
