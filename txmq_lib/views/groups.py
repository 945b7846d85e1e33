"""Consumer and producer groups, a row each: who is behind, whose transactions hang. Reads only, given the moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from txmq_lib import names
from txmq_lib.views.column_sql import output
from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.lag import LagWindow, lag_relation, lag_scans
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, sql_literal, sql_literals

CONSUMER_COLUMNS: Final = (
    *("consumer_group", "topics", "queues", "lag", "oldest_waiting_ms", "worst_state", "queues_in_it"),
    *("newest_report_timestamp", "rewinds", "broker_name"),
)
PRODUCER_COLUMNS: Final = (
    *("producer_group", "pending", "oldest_timestamp", "oldest_transaction_id", "most_checks", "given_up"),
    *("contradicted", "unproved", "committed", "rolled_back", "newest_timestamp", "clients"),
)
# What a group does with its queues, the worst first.
WORST_FIRST: Final = (
    *(names.LAG_BELOW_OLDEST, names.LAG_STOPPED, names.LAG_STALLED, names.LAG_NEVER_COMMITTED, names.LAG_REWOUND),
    *(names.LAG_AHEAD, names.LAG_FALLING_BEHIND, names.LAG_UNKNOWN, names.LAG_POP, names.LAG_FINE),
)
# Columns of the figures below, by the verdicts that each counts: given_up, where the checks are over; contradicted,
# where more than one thing became of a transaction; unproved, where what became of it is not known for sure; committed
# and rolled_back, where all is as it should be. Each verdict is in one, but for STILL_ASKED.
COUNTED: Final = {
    "given_up": names.GIVEN_UP_VERDICTS,
    "contradicted": (*names.ENDED_TWICE, names.COMMITTED_AND_DISCARDED),
    "unproved": (names.RESOLVED_UNKNOWN, names.EXPIRED_UNSEEN, names.DIVERTED, names.COMMITTED_OP_LOST),
    "committed": (names.COMMITTED,),
    "rolled_back": (names.ROLLED_BACK,),
}


def worst_first(states: Mapping[str, int]) -> list[tuple[str, int]]:
    """Lag states with their counts, the worst first: what is cut off at the end is well."""
    return sorted(states.items(), key=lambda state: WORST_FIRST.index(state[0]))


def consumer_groups(
    reader: WarehouseReader, window: LagWindow, *, groups: Sequence[str] = (), brokers: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """CONSUMER_COLUMNS of every consumer group of a broker, the worst first, then by lag.

    queues_in_it       queues whose lag state is `worst_state`
    oldest_waiting_ms  how long the message has been stored that waits longest; null: it has not landed
    """
    ranks = " ".join(f"WHEN {sql_literal(state)} THEN {rank}" for rank, state in enumerate(WORST_FIRST))
    condition, parameters = _either({"consumer_group": groups, "broker_name": brokers})
    sql = f"""
        SELECT consumer_group, count(DISTINCT topic), count(*), sum(lag)::BIGINT AS lag, max(lag_ms),
            arg_min(lag_state, rank) AS worst, count(*) FILTER (rank = least_rank),
            {output("max(last_report_timestamp)", "timestamp")}, sum(rewind_count)::BIGINT, broker_name
        FROM (SELECT *, min(rank) OVER (PARTITION BY broker_name, consumer_group) AS least_rank FROM (
            SELECT *, CASE lag_state {ranks} END AS rank FROM {lag_relation(window)} AS v WHERE {condition}))
        GROUP BY consumer_group, broker_name ORDER BY min(rank), lag DESC NULLS LAST, consumer_group, broker_name"""
    return reader.query(sql, parameters, {"base": Scan(OFFSETS.table, OFFSETS.needs), **lag_scans(reader, window)})


def producer_groups(
    reader: WarehouseReader, *, groups: Sequence[str] = (), brokers: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """PRODUCER_COLUMNS of every producer group, the one with most undecided transactions first.

    most_checks  the most that anybody has asked about one undecided transaction, txmq or a broker
    given_up, contradicted, unproved, committed, rolled_back  transactions by what audit says of them (COUNTED)
    clients  connected to a live broker as it last landed, of the one with most; null where no broker told
    """
    condition, parameters = _either({"producer_group": groups, "broker_name": brokers})
    counts = ", ".join(
        f"count(*) FILTER (verdict IN ({sql_literals(verdicts)})) AS {name}" for name, verdicts in COUNTED.items()
    )
    sql = f"""
        WITH waiting AS (
            SELECT producer_group, count(*) AS pending, min(first_store_timestamp) AS oldest,
                arg_min(transaction_id, first_store_timestamp) AS oldest_id,
                max(greatest(check_times, broker_check_times)) AS most_checks
            FROM pending WHERE {condition} GROUP BY ALL),
        judged AS (
            SELECT producer_group, {counts}, max(last_timestamp) AS newest
            FROM verdict WHERE {condition} GROUP BY ALL),
        connected AS (
            SELECT producer_group, max(clients) AS clients FROM producers WHERE {condition} GROUP BY ALL)
        SELECT coalesce(w.producer_group, j.producer_group), coalesce(pending, 0) AS pending,
            {output("oldest", "timestamp")}, oldest_id, most_checks,
            {", ".join(f"coalesce({name}, 0) AS {name}" for name in COUNTED)}, {output("newest", "timestamp")},
            coalesce(c.clients, (SELECT min(0) FROM told WHERE producer_group = {sql_literal(names.EVERY_GROUP)}))
        FROM waiting AS w FULL JOIN judged AS j ON w.producer_group IS NOT DISTINCT FROM j.producer_group
        LEFT JOIN connected AS c ON c.producer_group = coalesce(w.producer_group, j.producer_group)
        ORDER BY pending DESC, given_up DESC, 1 NULLS LAST"""
    waiting = ("transaction_id", "first_store_timestamp", "check_times", "broker_check_times")
    scans = {
        "pending": Scan("pending_half", ("producer_group", "broker_name", *waiting)),
        "verdict": Scan("verdict", ("producer_group", "broker_name", "verdict", "last_timestamp")),
        "producers": Scan("connected_producer", ("producer_group", "broker_name", "clients"), may_be_missing=True),
        "told": Scan("connected_producer", ("producer_group",), may_be_missing=True),
    }
    return reader.query(sql, parameters * 3, scans)


def _either(filters: dict[str, Sequence[str]]) -> tuple[str, list[str]]:
    terms = [f"{column} IN ({', '.join('?' * len(values))})" for column, values in filters.items() if values]
    return " AND ".join(terms) or "true", [value for values in filters.values() for value in values]
