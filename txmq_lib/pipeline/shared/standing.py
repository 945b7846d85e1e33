"""What transactions are as a person decides about them: by all that has landed, judged as audit judges."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.evidence import evidence_of
from txmq_lib.pipeline.shared.known_runs import frontier_with_runs
from txmq_lib.pipeline.shared.orphans import known_orphans
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.rules.decisions import standing
from txmq_lib.rules.evidence import transaction_figures
from txmq_lib.rules.verdict import judged


def standing_now(current: Pass, keys: DataFrame) -> DataFrame:
    """What the transactions `keys` are now, and where they lie."""
    policies = policies_of(current.settings)
    evidence = evidence_of(current, current.cached(keys), known_orphans(current))
    frontier, quarantine = frontier_with_runs(current), current.read("quarantine")
    figures = transaction_figures(evidence)
    verdicts = judged(figures, frontier, quarantine, policies=policies, now=current.now, pass_number=current.number)
    return standing(verdicts, evidence.halves, evidence.given_up, policies=policies, now=current.now)


def requested_rows(current: Pass, table: str) -> DataFrame:
    """Rows of a table of messages that the arguments mean."""
    rows, arguments = current.read(table), current.arguments
    for column, values in (
        ("transaction_id", arguments["transaction_ids"]),
        ("producer_group", arguments["groups"]),
        ("broker_name", arguments["brokers"]),
    ):
        if values:
            rows = rows.where(F.col(column).isin(values))
    if arguments["born_ms"] is not None:
        rows = rows.where(F.unix_millis("born_timestamp") == arguments["born_ms"])
    return rows


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows of `frame`, the first born first."""
    return list(
        frame.orderBy("born_timestamp", "broker_name", "transaction_id", "producer_group").toArrow().to_pylist()
    )
