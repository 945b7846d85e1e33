"""What every metric counts: queries over the few columns each needs. The clock is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from txmq_lib import names
from txmq_lib.views import figures, landing_figures
from txmq_lib.views.counters import SUM, Piece
from txmq_lib.views.cursors import checked_brokers, passed_over, stopped_checks
from txmq_lib.views.lag import FRONTIER, POSITION_NEEDS, POSITIONS_RELATION, LagWindow
from txmq_lib.views.metric_names import BROKER, LATENCY_BOUNDS, bounds, piece
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.runs import run_figures
from txmq_lib.views.scan import Scan

# Topics in which a message with commit bits is a copy of one that was visible before.
COPIES = ("%RETRY%", "%DLQ%", *names.DIVERTING_TOPICS)
SYSTEM_TOPICS = ("RMQ_SYS_", "rmq_sys_", names.MAX_TIME_TOPIC, *names.DIVERTING_TOPICS)
SYSTEM_GROUPS = ("CID_RMQ_SYS_",)


def metric_values(
    reader: WarehouseReader, now: datetime, lag_window_ms: int, source_steps: Collection[str] = ()
) -> Iterator[tuple[Piece, float]]:
    """Every series with its value now; of a histogram every bucket on its own, and the sum.

    source_steps  the steps of the configured sources (`run_figures`)
    """
    yield piece("txmq_collected_timestamp_seconds"), now.timestamp()
    yield from _pending(reader, now)
    yield from _decided(reader)
    yield from _commits(reader)
    yield from _asked(reader)
    yield from _unchecked(reader)
    yield from _consumers(reader, LagWindow(now, lag_window_ms))
    yield from _passes(reader)
    yield from _runs(reader, source_steps)
    for row in landing_figures.quarantined(reader):
        yield piece("txmq_quarantined_records", row.reason), row.count
    for orphans in figures.orphans(reader):
        yield piece("txmq_orphans", BROKER, orphans.broker_name, orphans.topic), orphans.count
    for source in landing_figures.landed(reader):
        if source.read_to_timestamp is not None:
            timestamp = source.read_to_timestamp.timestamp()
            yield piece("txmq_landed_timestamp_seconds", BROKER, source.broker_name), timestamp


def _runs(reader: WarehouseReader, source_steps: Collection[str]) -> Iterator[tuple[Piece, float]]:
    runs = run_figures(reader, source_steps)
    for step in runs.steps:
        yield piece("txmq_step_failures", step.step), step.failures
    for landing in runs.landings:
        yield piece("txmq_last_landing_timestamp_seconds", BROKER, landing.broker_name), landing.last_landed.timestamp()


def _counted(
    reader: WarehouseReader, metric: str, scan: Scan, *, by: Sequence[str] = (), where: str = "true"
) -> Iterator[tuple[Piece, float]]:
    """Rows of a table by broker and the expressions `by`, as values of `metric`."""
    sql = f"SELECT {', '.join(['broker_name', *by])}, count(*) FROM counted WHERE {where} GROUP BY ALL"
    for *labels, count in reader.query(sql, [], {"counted": scan}):
        yield piece(metric, BROKER, *labels), count


def _pending(reader: WarehouseReader, now: datetime) -> Iterator[tuple[Piece, float]]:
    sql = """
        SELECT broker_name, producer_group, real_topic, count(*),
            count(*) FILTER (next_check_timestamp <= $now),
            epoch(min(first_store_timestamp) FILTER (is_held IS NOT TRUE))
        FROM pending GROUP BY ALL"""
    columns = (
        "broker_name",
        "producer_group",
        "real_topic",
        "next_check_timestamp",
        "first_store_timestamp",
        "is_held",
    )
    topics: defaultdict[Piece, float] = defaultdict(float)
    groups: defaultdict[Piece, float] = defaultdict(float)
    oldest: dict[Piece, float] = {}
    for broker, group, topic, count, due, stored in reader.query(
        sql, {"now": now}, {"pending": Scan("pending_half", columns)}
    ):
        topics[piece("rocketmq_half_messages", BROKER, broker, topic)] += count
        groups[piece("txmq_pending_transactions", BROKER, broker, group)] += count
        groups[piece("txmq_pending_due_transactions", BROKER, broker, group)] += due
        if stored is not None:  # else all of them are held
            series = piece("txmq_pending_oldest_timestamp_seconds", BROKER, broker, group)
            oldest[series] = min(stored, oldest.get(series, stored))
    yield from (*topics.items(), *groups.items(), *oldest.items())


def _decided(reader: WarehouseReader) -> Iterator[tuple[Piece, float]]:
    sql = "SELECT broker_name, coalesce(real_topic, ''), verdict, count(*) FROM verdict GROUP BY ALL"
    verdicts: defaultdict[Piece, float] = defaultdict(float)
    columns = ("broker_name", "real_topic", "verdict")
    for broker, topic, verdict, count in reader.query(sql, [], {"verdict": Scan("verdict", columns)}):
        verdicts[piece("txmq_verdicts", BROKER, broker, verdict)] += count
        if verdict == names.ROLLED_BACK:
            yield piece("rocketmq_rollback_messages", BROKER, broker, topic), count
    yield from verdicts.items()


def _commits(reader: WarehouseReader) -> Iterator[tuple[Piece, float]]:
    """Committed messages and how long they took; a broker counts whole seconds since the message was born."""
    is_copy = " OR ".join(f"starts_with(topic, '{prefix}')" for prefix in COPIES)
    classes = ", ".join(
        f"count(*) FILTER (taken > {low} AND taken <= {high})"
        for low, high in zip((-1, *LATENCY_BOUNDS), (*LATENCY_BOUNDS, "'inf'::DOUBLE"), strict=True)
    )
    sql = f"""
        SELECT broker_name, topic, count(*), sum(taken), {classes}
        FROM (SELECT broker_name, topic, greatest(floor(epoch(store_timestamp) - epoch(born_timestamp)), 0) AS taken
            FROM message
            WHERE sys_flag & {names.SYS_FLAG_TRANSACTION_MASK} = {names.SYS_FLAG_COMMIT} AND NOT ({is_copy}))
        GROUP BY ALL"""
    scan = Scan("message", ("broker_name", "topic", "sys_flag", "store_timestamp", "born_timestamp"))
    for broker, topic, count, taken, *buckets in reader.query(sql, [], {"message": scan}):
        yield piece("rocketmq_commit_messages", BROKER, broker, topic), count
        yield piece("rocketmq_finish_message_latency", BROKER, broker, topic, part=SUM), taken
        for bound, within in zip(bounds(), buckets, strict=True):
            yield piece("rocketmq_finish_message_latency", BROKER, broker, topic, part=bound), within


def _asked(reader: WarehouseReader) -> Iterator[tuple[Piece, float]]:
    checks = Scan("check_request", ("broker_name", "producer_group"))
    yield from _counted(reader, "txmq_checks", checks, by=("coalesce(producer_group, '')",))
    ends = Scan("end_outcome", ("broker_name", "decision", "from_transaction_check", "is_held"))
    answered = "from_transaction_check AND NOT is_held"
    yield from _counted(reader, "txmq_check_answers", ends, by=("coalesce(decision, 'malformed')",), where=answered)
    yield from _counted(reader, "txmq_given_up_messages", Scan("trans_check_max_time", ("broker_name",)))


def _unchecked(reader: WarehouseReader) -> Iterator[tuple[Piece, float]]:
    waiting = dict.fromkeys(checked_brokers(reader), 0)
    for queue in stopped_checks(reader):
        waiting[queue.broker_name] += queue.waiting
    for passed in passed_over(reader):
        waiting[passed.broker_name] += passed.count
    for broker, count in waiting.items():
        yield piece("txmq_unchecked_half_messages", BROKER, broker), count


def _consumers(reader: WarehouseReader, window: LagWindow) -> Iterator[tuple[Piece, float]]:
    for group in figures.offset_groups(reader, window):
        labels = (BROKER, group.broker_name, group.consumer_group)
        yield piece("txmq_consumer_rewinds", *labels), group.rewinds
        for state, queues in group.states.items():
            yield piece("txmq_consumer_queues", *labels, state), queues
    sql = f"""
        WITH lags AS MATERIALIZED (
            SELECT broker_name, consumer_group, topic, queue_id, next_offset, lag FROM {POSITIONS_RELATION}
            WHERE lag IS NOT NULL),
        behind AS (
            SELECT consumer_group, broker_name, topic, min(m.store_timestamp) AS oldest
            FROM lags JOIN message AS m USING (broker_name, topic, queue_id)
            WHERE lag > 0 AND m.queue_offset >= next_offset GROUP BY ALL)
        SELECT broker_name, consumer_group, topic, sum(lag)::BIGINT, max(epoch_ms($now) - epoch_ms(oldest))
        FROM lags LEFT JOIN behind USING (consumer_group, broker_name, topic) GROUP BY ALL"""
    scans = {
        "base": Scan("consumer_offset", (*POSITION_NEEDS, "consumer_group")),
        "frontier": Scan("landing_frontier", FRONTIER),
        "message": Scan("message", ("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp")),
    }
    for broker, group, topic, lag, latency in reader.query(sql, {"now": window.now}, scans):
        is_retry = str(topic.startswith("%RETRY%")).lower()
        is_system = str(topic.startswith(SYSTEM_TOPICS) or group.startswith(SYSTEM_GROUPS)).lower()
        series = (BROKER, broker, group, topic, is_retry, is_system)
        yield piece("rocketmq_consumer_lag_messages", *series), lag
        if lag == 0 or latency is not None:
            yield piece("rocketmq_consumer_lag_latency", *series), latency or 0


def _passes(reader: WarehouseReader) -> Iterator[tuple[Piece, float]]:
    sql = "SELECT job, state, count(*) FROM pass GROUP BY ALL"
    for job, state, count in reader.query(sql, [], {"pass": Scan("pass", ("job", "state"))}):
        yield piece("txmq_passes", job, state), count
    for last in landing_figures.last_passes(reader):
        yield piece("txmq_unfinished_passes", last.job), float(last.unfinished_number is not None)
        if last.committed_timestamp is not None:
            yield piece("txmq_last_pass_timestamp_seconds", last.job), last.committed_timestamp.timestamp()
            yield piece("txmq_last_pass_duration_seconds", last.job), sum(last.seconds.values())
