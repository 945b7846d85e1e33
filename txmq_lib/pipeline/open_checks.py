"""Checks that nobody answered, as questions to put to resolvers: which of them, in which order, with their halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.answers.protocol import Check
from txmq_lib.names import TRANSACTION_KEY
from txmq_lib.passes.current import Pass
from txmq_lib.rules.answers import QUESTION
from txmq_lib.spark.local_frame import local_frame

KNOWN = "known_reasons"
# Some KiB each in this process.
QUESTIONS_AT_ONCE = 20_000
GROUP, RESOLVER = "_served_group", "_resolver"


@dataclass(frozen=True)
class Question:
    """A check, who is asked, and which silences about it are recorded already."""

    resolver: str
    check: Check
    known_reasons: frozenset[str]


def in_turn(current: Pass, questions: DataFrame, counts: Mapping[str | None, int]) -> Iterator[Question]:
    """What is asked, in an order that the plan alone fixes; some QUESTIONS_AT_ONCE are held by this process.

    Those to one resolver lie together, each time in another order: an endpoint that fails for some is taken for down
    after a few in a row, and they must not come first every time.
    counts  of the questions of each group that has a resolver
    """
    named = [(group, current.settings.resolver_for(group)) for group in counts]
    served = local_frame(current.warehouse.spark, named, f"{GROUP} string, {RESOLVER} string")
    same_group = F.col("producer_group").eqNullSafe(F.col(GROUP))
    in_turn = (F.col(RESOLVER), F.xxhash64(F.lit(current.number), *TRANSACTION_KEY), *map(F.col, TRANSACTION_KEY))
    parts = -(-sum(counts.values()) // QUESTIONS_AT_ONCE)
    put = questions.join(F.broadcast(served), on=same_group, how="inner")
    for row in put.repartitionByRange(max(parts, 1), *in_turn).sortWithinPartitions(*in_turn).toLocalIterator():
        values = {name: _in_utc(row[name]) for name in QUESTION}
        yield Question(row[RESOLVER], Check(**values, half={}), frozenset(row[KNOWN] or ()))


def _in_utc(value: Any) -> Any:  # noqa: ANN401 - of any column
    # Spark hands times over in the local zone and without it.
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def by_resolver(questions: Sequence[Question]) -> Iterator[tuple[str, list[Question]]]:
    """Questions that follow one another and go to one resolver, together."""
    for name, group in groupby(questions, key=lambda question: question.resolver):
        yield name, list(group)


def parted(questions: Iterable[Question], size: int) -> Iterator[list[Question]]:
    """`questions` in lists of at most `size`."""
    remaining = iter(questions)
    while part := list(islice(remaining, size)):
        yield part


def with_halves(current: Pass, checks: Sequence[Check], columns: Sequence[str]) -> list[Check]:
    """`checks`, each with `columns` of the half that it asks about."""
    offsets = sorted({check.commit_log_offset for check in checks})
    offset = F.col("commit_log_offset")
    # The span prunes files, the list rows: bodies are read of those asked about only.
    is_asked_about = offset.between(offsets[0], offsets[-1]) & offset.isin(offsets)
    # A rebuilt broker may have had another half at the same physical offset.
    place = ("broker_name", "commit_log_offset", "queue_id", "queue_offset")
    names = list(dict.fromkeys((*place, *columns)))
    rows = current.read("half_message").where(is_asked_about).select(*names).toArrow().to_pylist()
    halves = {tuple(row[name] for name in place): row for row in rows}
    for row in rows:
        if "properties" in row:
            row["properties"] = dict(row["properties"])
    return [
        check.with_half(
            halves[check.broker_name, check.commit_log_offset, check.queue_id, check.tran_state_table_offset]
        )
        for check in checks
    ]
