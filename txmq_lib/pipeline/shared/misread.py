"""Rollbacks that a log proved until a later message of their queue showed that a record of it had been misread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import REASON_LOG_READ, ROLLED_BACK
from txmq_lib.passes.current import Pass
from txmq_lib.rules.frontier import WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID
from txmq_lib.rules.proof import PATTERNS
from txmq_lib.rules.runs import QUEUE, holes_between, no_runs
from txmq_lib.rules.transaction import transactions_of

FRONTIER = "landing_frontier"


def proved_until_now(current: Pass, frontier: DataFrame) -> DataFrame | None:
    """Keys of settled verdicts that a log proved, of queues with a hole that was not known at the last pass.

    None where there is no such queue: history is looked at for those alone.
    """
    since = current.known_to(FRONTIER)
    if since is None or not current.has_new_rows(FRONTIER):
        return None
    found = _holes(frontier)
    if current.warehouse.log(FRONTIER).is_readable(since):
        found = found.join(_holes(current.warehouse.read(FRONTIER, since)), on=found.columns, how="left_anti")
    queues = current.cached(found.select(*QUEUE).distinct())  # a queue may have several
    if queues.isEmpty():
        return None
    named = queues.withColumnsRenamed({"topic": "real_topic", "queue_id": "real_queue_id"})
    by_log = current.read("verdict").where((F.col("verdict") == ROLLED_BACK) & (F.col("reason") == REASON_LOG_READ))
    return transactions_of(by_log.join(F.broadcast(named), on=named.columns, how="left_semi"))


def _holes(frontier: DataFrame) -> DataFrame:
    """What is missing of the queues of brokers whose log was read."""
    is_log = (F.col("topic") == WHOLE_LOG_TOPIC) | F.col("topic").rlike(PATTERNS)
    logs = frontier.where((F.col("queue_id") == WHOLE_QUEUE_ID) & is_log).select("broker_name")
    queues = frontier.where(F.col("queue_id") != WHOLE_QUEUE_ID).join(logs, on="broker_name", how="left_semi")
    return queues.select(*QUEUE, F.explode(holes_between(F.coalesce("runs", no_runs()))).alias("hole")).select(
        *QUEUE, "hole.from_offset", "hole.to_offset", F.coalesce("hole.before", F.lit(-1)).alias("before")
    )
