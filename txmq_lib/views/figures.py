"""Figures of a warehouse, counted by DuckDB over the few columns each needs. Bodies are never read; clock is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from txmq_lib import names
from txmq_lib.errors import TableMissingError
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.declared.transactions import PENDING
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.lag import LagWindow, lag_relation, lag_scans
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

# Upper ends of the age classes in seconds; what is older is in the last class.
AGE_CLASSES = {"1m": 60, "10m": 600, "1h": 3600, "1d": 86_400}
OLDER = "older"


@dataclass(frozen=True)
class PendingGroup:
    """Undecided transactions of one producer group; ages are counts by AGE_CLASSES, `due` those to be asked about now,
    `most_checks` the most anybody has asked about one, txmq or a broker; `clients` of the group connected to a broker
    as it last landed live, None where none told, and `unattended` the transactions on brokers where none was;
    `oldest_asked_timestamp` is of the oldest that nobody holds, None where all are held."""

    producer_group: str | None
    count: int
    ages: Mapping[str, int]
    oldest_timestamp: datetime
    oldest_transaction_id: str
    oldest_asked_timestamp: datetime | None
    due: int
    most_checks: int
    clients: int | None = None
    unattended: int = 0


@dataclass(frozen=True)
class CheckFigures:
    """Requests raised by txmq, ends that answered a check by decision, and when the newest request was raised."""

    asked: int
    answers: Mapping[str, int]
    last_asked_timestamp: datetime | None

    @property
    def answered(self) -> int:
        """All answers."""
        return sum(self.answers.values())


@dataclass(frozen=True)
class OffsetGroup:
    """A consumer group of one broker: its queues by where their offset lies (`states`) and by what the group does with
    them (`lag_states`); what they lag behind together, where it is known."""

    broker_name: str
    consumer_group: str
    queues: int
    lag: int
    states: Mapping[str, int]
    lag_states: Mapping[str, int]
    rewinds: int


@dataclass(frozen=True)
class DecidedByHand:
    """Transactions with a verdict of nobody having decided, and what somebody has decided since (`decision` of the view
    verdicts)."""

    verdict: str
    decision: str
    count: int


@dataclass(frozen=True)
class Orphans:
    """Committed messages of one topic of a broker whose half has never landed (`count`), and those whose half lies
    before all that was ever read of the broker (`before_first`): retention removed it, most likely."""

    broker_name: str
    topic: str
    count: int
    before_first: int


def pending_groups(reader: WarehouseReader, now: datetime) -> list[PendingGroup]:
    """Every producer group with undecided transactions, the most first."""
    first, *ends = AGE_CLASSES.values()
    between = [f"count(*) FILTER (age >= {low} AND age < {high})" for low, high in pairwise([first, *ends])]
    classes = ", ".join([f"count(*) FILTER (age < {first})", *between, f"count(*) FILTER (age >= {ends[-1]})"])
    sql = f"""
        SELECT producer_group, count(*), {utc("min(first_store_timestamp)")},
            arg_min(transaction_id, first_store_timestamp), count(*) FILTER (next_check_timestamp <= $now),
            max(greatest(check_times, broker_check_times)), max(clients), count(*) FILTER (clients = 0),
            {utc("min(first_store_timestamp) FILTER (is_held IS NOT TRUE)")}, {classes}
        FROM (SELECT *, epoch($now) - epoch(first_store_timestamp) AS age FROM {PENDING.relation})
        GROUP BY ALL ORDER BY count(*) DESC, producer_group"""
    columns = (
        "broker_name",
        "producer_group",
        "first_store_timestamp",
        "transaction_id",
        "next_check_timestamp",
        "check_times",
        "broker_check_times",
        "is_held",
    )
    joined = {name: Scan(part.table, part.columns, may_be_missing=True) for name, part in PENDING.joined.items()}
    rows = reader.query(sql, {"now": now}, {"base": Scan("pending_half", columns), **joined})
    return [
        PendingGroup(
            group,
            count,
            dict(zip([*AGE_CLASSES, OLDER], ages, strict=True)),
            in_utc(oldest),
            oldest_transaction_id=which,
            oldest_asked_timestamp=in_utc(asked),
            due=due,
            most_checks=most,
            clients=clients,
            unattended=unattended,
        )
        for group, count, oldest, which, due, most, clients, unattended, asked, *ages in rows
    ]


def check_figures(reader: WarehouseReader) -> CheckFigures:
    """Checks asked by txmq and ends that answered one; the latter are counted once they are judged."""
    answers = reader.query(
        "SELECT coalesce(decision, 'malformed'), count(*) FROM ends"
        " WHERE from_transaction_check AND NOT is_held GROUP BY ALL ORDER BY ALL",
        [],
        {"ends": Scan("end_outcome", ("decision", "from_transaction_check", "is_held"))},
    )
    requests = reader.stored("check_request")
    return CheckFigures(requests.row_count, dict(answers), in_utc(requests.highest("check_timestamp")))


def verdict_counts(reader: WarehouseReader) -> dict[str, dict[str | None, int]]:
    """Transactions per verdict and its reason."""
    sql = "SELECT verdict, reason, count(*) FROM verdict GROUP BY ALL ORDER BY ALL"
    counts: dict[str, dict[str | None, int]] = {}
    for verdict, reason, count in reader.query(sql, [], {"verdict": Scan("verdict", ("verdict", "reason"))}):
        counts.setdefault(verdict, {})[reason] = count
    return counts


def offset_groups(reader: WarehouseReader, window: LagWindow) -> list[OffsetGroup]:
    """Every consumer group with its queues' states, the one that lags most first."""
    sql = f"""
        SELECT broker_name, consumer_group, count(*), coalesce(sum(lag), 0)::BIGINT AS lag, histogram(state),
            histogram(lag_state), sum(rewind_count)::BIGINT
        FROM {lag_relation(window)} GROUP BY ALL ORDER BY lag DESC, consumer_group, broker_name"""
    rows = reader.query(sql, [], {"base": Scan(OFFSETS.table, OFFSETS.needs), **lag_scans(reader, window)})
    return [OffsetGroup(*row) for row in rows]


def decided_by_hand(reader: WarehouseReader) -> list[DecidedByHand]:
    """Undecided transactions of which somebody has decided, by verdict and how far the decision has come."""
    by_hand = [VERDICTS.joined[name] for name in ("decided", "sent")]
    try:
        if not any(reader.stored(part.table).row_count for part in by_hand):
            return []
    except TableMissingError:  # an older warehouse
        return []
    scans = {
        name: Scan(part.table, part.columns, may_be_missing=part.may_be_missing)
        for name, part in VERDICTS.joined.items()
    }
    columns = [
        row[0]
        for row in reader.query(
            "SELECT transaction_id FROM decided UNION SELECT transaction_id FROM sent",
            [],
            {name: Scan(VERDICTS.joined[name].table, ("transaction_id",)) for name in ("decided", "sent")},
        )
    ]
    sql = f"""SELECT verdict, decision, count(*) FROM {VERDICTS.relation}
        WHERE decision IS NOT NULL GROUP BY ALL ORDER BY ALL"""
    rows = reader.query(sql, [], {"base": Scan("verdict", VERDICTS.needs, ({"transaction_id": columns},)), **scans})
    return [DecidedByHand(*row) for row in rows]


def orphans(reader: WarehouseReader) -> list[Orphans]:
    """Messages without a half by broker and topic, the most first; none in an older warehouse."""
    sql = f"""SELECT broker_name, topic, count(*) FILTER (state = '{names.ORPHAN}') AS orphans,
            count(*) FILTER (state = '{names.ORPHAN_BEFORE_FIRST}')
        FROM orphan WHERE state <> '{names.ORPHAN_HALF_LANDED}' GROUP BY ALL
        ORDER BY orphans DESC, broker_name, topic"""
    try:
        rows = list(reader.query(sql, [], {"orphan": Scan("orphan", ("broker_name", "topic", "state"))}))
    except TableMissingError:
        return []
    return [Orphans(*row) for row in rows]
