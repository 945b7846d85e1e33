"""Which committed messages have no half: kept by the audit from what is new, whatever the past holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import ORIGIN_LANDED, ORPHAN, ORPHAN_HALF_LANDED
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.pruning import near_values
from txmq_lib.rules.orphans import HALF, KEY, committed_by_brokers, first_places, judged_orphans, without_half
from txmq_lib.rules.policy import Policies

TABLE = "orphan"
OF_HALVES = ("half_message", "trans_check_max_time")


class Orphans(NamedTuple):
    """Committed messages without a half.

    missing  all there are now
    changed  rows of `orphan` that are new or have another state now
    """

    missing: DataFrame
    changed: DataFrame


def known_orphans(current: Pass) -> DataFrame:
    """Rows of `orphan` without a half, as the plan saw them."""
    if TABLE not in current.input_versions:  # a pass that a version without this table began
        return current.warehouse.empty(TABLE)
    return current.read(TABLE).where(F.col("state") != ORPHAN_HALF_LANDED)


def find_orphans(current: Pass, policies: Policies) -> Orphans:
    """New messages whose half is not there, and those known before, less the ones whose half has landed since."""
    waiting = known_orphans(current)
    messages = committed_by_brokers(current.new_rows("message").where(F.col("origin") == ORIGIN_LANDED), policies)
    if current.known_to("message") is None and TABLE in current.input_versions:
        messages = messages.join(current.read(TABLE).select(*KEY), on=list(KEY), how="left_anti")
    with current.timed("orphans"):
        missing = without_half(messages, _halves(_near(current, messages)))
        still = without_half(waiting, _halves([current.new_rows(table) for table in OF_HALVES]))
        all_missing = current.cached(missing.unionByName(still.select(*missing.columns)))
        places = _first_places(current, all_missing)
        return Orphans(
            all_missing, current.cached(judged_orphans(all_missing, waiting, places, pass_number=current.number))
        )


def write_orphans(current: Pass, found: Orphans) -> None:
    """Write what has changed; counts `orphans`."""
    if TABLE not in current.input_versions:
        return
    with current.timed("orphans"):
        count = found.changed.where(F.col("state") == ORPHAN).count()
    current.upsert(TABLE, found.changed, step=TABLE)
    if count:
        current.counts["orphans"] = count


def _near(current: Pass, messages: DataFrame) -> list[DataFrame]:
    if current.is_first:
        # At the first pass every message is new.
        return [current.read(table) for table in OF_HALVES]
    near = near_values("commit_log_offset", messages, "prepared_transaction_offset")
    return [near.rows(current, table) for table in OF_HALVES]


def _halves(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, [frame.select(*HALF) for frame in frames])


def _first_places(current: Pass, missing: DataFrame) -> DataFrame:
    places = current.cached(first_places(current.read_once("landing_frontier")))
    silent = places.where("first_place is null").select("broker_name")
    if missing.join(silent, on="broker_name", how="left_semi").isEmpty():
        return places
    # Landed before frontiers told of it.
    rows = [current.read(table).select("broker_name", "commit_log_offset") for table in ("message", *OF_HALVES)]
    landed = reduce(DataFrame.unionByName, rows)
    found = landed.groupBy("broker_name").agg(F.min("commit_log_offset").alias("first_place"))
    return places.where("first_place is not null").unionByName(found.join(silent, on="broker_name", how="left_semi"))
