"""What a reconcile pass has decided, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import COMMIT, MAX_TIME_TOPIC, OP_TOPIC, ROLE_ENGINE
from txmq_lib.passes.current import Pass
from txmq_lib.rules import check, effects, end
from txmq_lib.rules.policy import Policies

QUEUES_OF_END: Final = ("broker_name", "real_topic", "real_queue_id", "half_queue_id")
KINDS: Final = ("outcome", "decision")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What a pass has decided.

    outcomes   rows of end_outcome, with `was_held`
    files      files of end_outcome that have them all but `waiting_ends`; None: some are in the frame alone
    waiting_ends  those of them that wait for their half, where there are `files`; None where none does
    deciding   those that decide a transaction: effective ones, of brokers whose role is engine
    undecided  transactions that stay so or are given up, with `action` and `reason`
    pending    rows of pending_half from now on
    giving_up  those of `undecided` that are given up
    """

    policies: Policies
    outcomes: DataFrame
    files: Sequence[str] | None
    waiting_ends: DataFrame | None
    deciding: DataFrame
    undecided: DataFrame
    pending: DataFrame
    giving_up: DataFrame


class Tally(NamedTuple):
    """How many there are of each: ends, those of them that decide by decision, undecided transactions by action.

    end_counts  groups of ends: KINDS, is_held, was_held, decides, their `rows`, and refused_after_ms, the epoch ms at
                which the first of them is refused if its half has not landed; QUEUES_OF_END where they decide
    rows_per_queue  how many each queue (broker, topic, queue) of messages, ops and given-up ones gets
    """

    end_counts: list[Mapping[str, Any]]
    decisions: Counter[str]
    actions: Counter[str]
    rows_per_queue: Counter[tuple[str, str, int]]


def tallied(current: Pass, decided: Decided) -> Tally:
    """The tally of what was decided; into the counts of the pass, too."""
    with current.timed("tally"):
        actions = decided.undecided.groupBy("action", "broker_name", "queue_id").count().collect()
        if decided.files is None:
            end_counts = _counts_of(decided.outcomes, decided.policies)
        else:
            end_counts = list(_counts_in(current, decided.files))
            if decided.waiting_ends is not None:
                end_counts += _counts_of(decided.waiting_ends, decided.policies)
    tally = Tally(end_counts, Counter(), Counter(), Counter())
    for group in end_counts:
        if group["decides"]:
            tally.decisions[group["decision"]] += group["rows"]
            tally.rows_per_queue[group["broker_name"], OP_TOPIC, group["half_queue_id"]] += group["rows"]
            if group["decision"] == COMMIT:
                tally.rows_per_queue[group["broker_name"], group["real_topic"], group["real_queue_id"]] += group["rows"]
        name = f"ends_{group['outcome']}"
        current.counts[name] = current.counts.get(name, 0) + group["rows"]
    for row in actions:
        tally.actions[row["action"]] += row["count"]
        if row["action"] == check.GIVE_UP:
            tally.rows_per_queue[row["broker_name"], MAX_TIME_TOPIC, effects.MAX_TIME_QUEUE_ID] += row["count"]
            if current.settings.roll_back_given_up:
                tally.rows_per_queue[row["broker_name"], OP_TOPIC, row["queue_id"]] += row["count"]
    return tally


def _counts_of(outcomes: DataFrame, policies: Policies) -> list[Mapping[str, Any]]:
    """How many ends there are of each kind and, where they decide, of each queue."""
    refused_after = F.unix_millis("ts") + policies.column("file_reserved_time_ms") + 1
    decides = end.decides(policies)
    queues = [F.when(decides, F.col(name)).alias(name) for name in QUEUES_OF_END]
    rows = (
        outcomes.groupBy(*KINDS, "is_held", "was_held", decides.alias("decides"), *queues)
        .agg(F.count("*").alias("rows"), F.min(refused_after).alias("refused_after_ms"))
        .collect()
    )
    return [row.asDict() for row in rows]


def _counts_in(current: Pass, files: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The same of rows of end_outcome in files of this machine, none of which is held or was."""
    counts: Counter[tuple[Any, ...]] = Counter()
    with ThreadPoolExecutor(current.warehouse.spark.sparkContext.defaultParallelism) as pool:
        for counted in pool.map(_counted, files):
            counts.update(counted)
    for (broker_name, topic, queue_id, half_queue_id, outcome, decision, is_effective), rows in counts.items():
        decides = is_effective and current.settings.for_broker(broker_name).role == ROLE_ENGINE
        queues = zip(QUEUES_OF_END, (broker_name, topic, queue_id, half_queue_id), strict=True)
        yield {
            **{name: value if decides else None for name, value in queues},
            **{"outcome": outcome, "decision": decision, "decides": decides, "rows": rows},
            **{"is_held": False, "was_held": False, "refused_after_ms": None},
        }


def _counted(path: str) -> Counter[tuple[Any, ...]]:
    columns = [*QUEUES_OF_END, *KINDS, "is_effective"]
    counts: Counter[tuple[Any, ...]] = Counter()
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number, columns=columns, use_threads=False)
            grouped = pa.TableGroupBy(rows, columns, use_threads=False).aggregate([([], "count_all")])
            for row in grouped.to_pylist():
                counts[tuple(row[name] for name in columns)] += row["count_all"]
    return counts
