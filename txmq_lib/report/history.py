"""What became of transactions over time: queries over the few columns each needs. Clock and period are given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from txmq_lib import names
from txmq_lib.report.period import PARTS, Period
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.figures import AGE_CLASSES, OLDER
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, sql_literals

# Upper ends of the classes of times to a decision, in seconds.
DECISION_BOUNDS = (0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10_800, 43_200, 86_400, 259_200)
DECIDED = (names.COMMITTED, names.ROLLED_BACK)
QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class DecisionTimes:
    """Seconds from half to decision of one producer group: how many, their quantiles (QUANTILES), the longest."""

    producer_group: str | None
    count: int
    quantiles: tuple[float, ...]
    longest: float


@dataclass(frozen=True)
class CheckCounts:
    """Checks of one producer group: asked by txmq, counted by brokers, and how many of its transactions were asked."""

    producer_group: str | None
    by_txmq: int
    by_broker: int
    transactions: int


@dataclass(frozen=True)
class GivenUpCounts:
    """Messages given up of one producer group for one reason, and when the newest was."""

    producer_group: str | None
    reason: str
    count: int
    newest_timestamp: datetime


def pending_over_time(reader: WarehouseReader, period: Period) -> dict[str, list[int]]:
    """Undecided transactions at the end of each part, by their age then, as verdicts tell: no row, no figure.

    A transaction was undecided from its first half row to the last row seen of it, or is still, as it is asked about.
    """
    edges = [0, *AGE_CLASSES.values()]
    classes = ", ".join(
        f"({place}, {low * 1000}, {high})"
        for place, (low, high) in enumerate(
            [*((low, str(high * 1000)) for low, high in pairwise(edges)), (edges[-1], "NULL")]
        )
    )
    part = period.part
    sql = f"""
        WITH lives AS (
            SELECT first_timestamp AS born,
                CASE WHEN verdict NOT IN ({sql_literals(names.STILL_ASKED)}) THEN last_timestamp END AS decided
            FROM verdict WHERE verdict <> '{names.DIVERTED}'),
        -- Most are decided before the part ends: they are undecided at no end of a part.
        lasting AS (SELECT * FROM lives WHERE decided IS NULL OR {part("born")} < {part("decided")}),
        spans AS (
            SELECT class, greatest({part("born + to_milliseconds(low)")}, 0) AS begin,
                least(coalesce({part("born + to_milliseconds(high)")}, {PARTS}),
                    coalesce({part("decided")}, {PARTS}), {PARTS}) AS until
            FROM lasting, (VALUES {classes}) AS classes(class, low, high)),
        changes AS (
            SELECT class, begin AS part, 1 AS change FROM spans WHERE begin < until
            UNION ALL SELECT class, until, -1 FROM spans WHERE begin < until)
        SELECT class, part, sum(change)::BIGINT FROM changes GROUP BY ALL"""
    changes: defaultdict[tuple[int, int], int] = defaultdict(int)
    rows = reader.query(sql, [], {"verdict": Scan("verdict", ("verdict", "first_timestamp", "last_timestamp"))})
    for place, at, change in rows:
        changes[place, at] = change
    counted = {}
    for place, name in enumerate([*AGE_CLASSES, OLDER]):
        alive, line = 0, []
        for at in range(PARTS):
            alive += changes[place, at]
            line.append(alive)
        counted[name] = line
    return counted


def verdicts_over_time(reader: WarehouseReader, period: Period) -> dict[str, list[int]]:
    """Transactions by the part in which they were first seen, per verdict, in the order of names.VERDICTS."""
    sql = f"""SELECT verdict, part, count(*)
        FROM (SELECT verdict, {period.part("first_timestamp")} AS part FROM verdict)
        WHERE part BETWEEN 0 AND {PARTS - 1} GROUP BY ALL"""
    counted: dict[str, list[int]] = {}
    for verdict, part, count in reader.query(sql, [], {"verdict": Scan("verdict", ("verdict", "first_timestamp"))}):
        counted.setdefault(verdict, [0] * PARTS)[part] = count
    return {verdict: counted[verdict] for verdict in names.VERDICTS if verdict in counted}


def decision_classes() -> list[str]:
    """Names of the classes of times to a decision, the shortest first."""
    bounds = [span_name(bound) for bound in DECISION_BOUNDS]
    return [f"<{bounds[0]}", *(f"{low}-{high}" for low, high in pairwise(bounds)), f">={bounds[-1]}"]


def decision_counts(reader: WarehouseReader, period: Period) -> dict[str, list[int]]:
    """Transactions decided in the period by class of time from half to decision, per verdict."""
    cases = " ".join(f"WHEN taken < {bound} THEN {place}" for place, bound in enumerate(DECISION_BOUNDS))
    sql = f"""SELECT verdict, CASE {cases} ELSE {len(DECISION_BOUNDS)} END AS class, count(*)
        FROM ({_TAKEN}) GROUP BY ALL"""
    counted = {verdict: [0] * (len(DECISION_BOUNDS) + 1) for verdict in DECIDED}
    for verdict, place, count in reader.query(sql, {"begin": period.begin}, {"verdict": _TAKEN_SCAN}):
        counted[verdict][place] = count
    return counted


def decision_times(reader: WarehouseReader, period: Period) -> list[DecisionTimes]:
    """Time from half to decision per producer group, the largest group first."""
    sql = f"""SELECT producer_group, count(*), quantile_cont(taken, {list(QUANTILES)}), max(taken)
        FROM ({_TAKEN}) GROUP BY ALL ORDER BY count(*) DESC, producer_group"""
    rows = reader.query(sql, {"begin": period.begin}, {"verdict": _TAKEN_SCAN})
    return [DecisionTimes(group, count, tuple(quantiles), longest) for group, count, quantiles, longest in rows]


_TAKEN = f"""SELECT verdict, producer_group, greatest(epoch(last_timestamp) - epoch(first_timestamp), 0) AS taken
    FROM verdict WHERE verdict IN ({sql_literals(DECIDED)}) AND last_timestamp >= $begin"""
_TAKEN_SCAN = Scan("verdict", ("verdict", "producer_group", "first_timestamp", "last_timestamp"))


def check_counts(reader: WarehouseReader) -> list[CheckCounts]:
    """Checks per producer group, the most asked first; of brokers the highest count seen of each transaction."""
    sql = """
        SELECT producer_group, sum(check_times)::BIGINT AS by_txmq, sum(broker_check_times)::BIGINT AS by_broker,
            count(*)
        FROM verdict WHERE check_times > 0 OR broker_check_times > 0
        GROUP BY ALL ORDER BY by_txmq + by_broker DESC, producer_group"""
    scan = Scan("verdict", ("producer_group", "check_times", "broker_check_times"))
    return [CheckCounts(*row) for row in reader.query(sql, [], {"verdict": scan})]


def given_up_counts(reader: WarehouseReader) -> list[GivenUpCounts]:
    """Messages given up per producer group and reason, the most first; a broker tells no reason."""
    sql = f"""
        SELECT producer_group, coalesce(reason, 'by a broker') AS reason, count(*),
            {utc("max(given_up_timestamp)")}
        FROM given_up GROUP BY ALL ORDER BY count(*) DESC, producer_group, reason"""
    scan = Scan("trans_check_max_time", ("producer_group", "reason", "given_up_timestamp"))
    return [
        GivenUpCounts(group, reason, count, in_utc(newest))
        for group, reason, count, newest in reader.query(sql, [], {"given_up": scan})
    ]


def verdicts_of_given_up(reader: WarehouseReader) -> Mapping[str, int]:
    """What became of transactions that were given up: counts by verdict, in the order of names.VERDICTS."""
    sql = "SELECT verdict, count(*) FROM verdict WHERE given_up_count > 0 GROUP BY ALL"
    counted = dict(reader.query(sql, [], {"verdict": Scan("verdict", ("verdict", "given_up_count"))}))
    return {verdict: counted[verdict] for verdict in names.VERDICTS if verdict in counted}


def span_name(seconds: float) -> str:
    """A span in one unit: 0.1s, 30s, 10m, 12h, 3d."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:g}{unit}"
    return f"{timedelta(seconds=seconds).total_seconds():g}s"
