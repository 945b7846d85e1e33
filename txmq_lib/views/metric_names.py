"""The metrics txmq tells: RocketMQ 5's names and labels where the meaning is the same, `txmq_` for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from txmq_lib.views.counters import INFINITE, Piece

# Upper bounds of rocketmq_finish_message_latency in seconds, as a broker has them (BrokerMetricsManager).
LATENCY_BOUNDS = (5.0, 60.0, 600.0, 3600.0, 43_200.0, 86_400.0)
NODE = ("node_type", "node_id")
TOPIC = (*NODE, "topic")
GROUP = (*NODE, "producer_group")
LEFT_OUT = "txmq_series_left_out"
CONSUMER = (*NODE, "consumer_group", "topic", "is_retry", "is_system")


@dataclass(frozen=True)
class Family:
    """One metric: its name (a counter's without `_total`), kind, label names and what it says."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


FAMILIES = (
    Family("rocketmq_half_messages", "gauge", TOPIC, "Half messages undecided now"),
    Family("rocketmq_commit_messages", "counter", TOPIC, "Messages made visible by a commit"),
    Family("rocketmq_rollback_messages", "counter", TOPIC, "Transactions rolled back"),
    Family("rocketmq_finish_message_latency", "histogram", TOPIC, "Seconds from born to committed"),
    Family("rocketmq_consumer_lag_messages", "gauge", CONSUMER, "Messages not consumed yet"),
    Family("rocketmq_consumer_lag_latency", "gauge", CONSUMER, "Milliseconds since the oldest of them was stored"),
    Family("txmq_pending_transactions", "gauge", GROUP, "Transactions undecided now"),
    Family("txmq_pending_due_transactions", "gauge", GROUP, "Of these, those whose next check is due"),
    Family(
        "txmq_pending_oldest_timestamp_seconds", "gauge", GROUP, "When the oldest of these, held ones aside, was stored"
    ),
    Family(
        "txmq_unchecked_half_messages",
        "gauge",
        NODE,
        "Half messages that their broker checks no more: behind a cursor that stands, or passed over",
    ),
    Family("txmq_checks", "counter", GROUP, "Checks asked by txmq"),
    Family("txmq_check_answers", "counter", (*NODE, "decision"), "Ends that answered a check"),
    Family("txmq_given_up_messages", "counter", NODE, "Messages given up, by a broker or by txmq"),
    Family("txmq_verdicts", "gauge", (*NODE, "verdict"), "Transactions with this verdict now"),
    Family("txmq_orphans", "gauge", TOPIC, "Committed messages whose half has never landed"),
    Family("txmq_consumer_queues", "gauge", (*NODE, "consumer_group", "state"), "Queues of a consumer group by state"),
    Family("txmq_consumer_rewinds", "counter", (*NODE, "consumer_group"), "Offsets set back"),
    Family("txmq_quarantined_records", "counter", ("reason",), "Records put into quarantine"),
    Family("txmq_landed_timestamp_seconds", "gauge", NODE, "Highest store time landed"),
    Family("txmq_passes", "counter", ("job", "state"), "Passes started, committed and abandoned"),
    Family("txmq_unfinished_passes", "gauge", ("job",), "1 while the newest pass has started and not ended"),
    Family("txmq_last_pass_timestamp_seconds", "gauge", ("job",), "When the newest committed pass ended"),
    Family("txmq_last_pass_duration_seconds", "gauge", ("job",), "Seconds its steps took together"),
    Family("txmq_step_failures", "gauge", ("step",), "Failures in a row of a command, a source or a job, up to now"),
    Family("txmq_last_landing_timestamp_seconds", "gauge", NODE, "When the landing of a broker last went well"),
    Family(LEFT_OUT, "gauge", ("metric",), "Series of a metric that are not told, since there are too many"),
    Family("txmq_collected_timestamp_seconds", "gauge", (), "When these figures were counted"),
)
BY_NAME = {family.name: family for family in FAMILIES}
BROKER: Final = "broker"


def bounds() -> list[str]:
    """Upper bounds of the buckets as Prometheus writes them, the last one open."""
    return [*map(str, LATENCY_BOUNDS), INFINITE]


def piece(metric: str, *values: object, part: str = "") -> Piece:
    """A series of a metric by the values of its labels in their order; None is an empty label."""
    labels = zip(BY_NAME[metric].labels, ("" if value is None else str(value) for value in values), strict=True)
    return Piece(metric, tuple(sorted(labels)), part)
