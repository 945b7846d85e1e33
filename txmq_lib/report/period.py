"""The span of time a report looks at, cut into equal parts. Reads no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

PARTS = 48
LONGEST = timedelta(days=30)
SHORTEST = timedelta(seconds=PARTS)

# Where something happened: tables with the columns of the first and the last time a row tells.
EVIDENCE = {
    "verdict": ("first_timestamp", "last_timestamp"),
    "pending_half": ("first_store_timestamp", "last_store_timestamp"),
    "consumer_offset": ("updated_timestamp", "last_report_timestamp"),
}
PASSES = {"pass": ("wall_timestamp", "wall_timestamp")}


@dataclass(frozen=True)
class Period:
    """From `begin` to `end` in PARTS equal parts."""

    begin: datetime
    end: datetime

    @property
    def step(self) -> timedelta:
        """The length of a part."""
        return (self.end - self.begin) / PARTS

    def ends(self) -> list[datetime]:
        """The last moment of each part."""
        return [self.begin + self.step * (place + 1) for place in range(PARTS)]

    def part(self, expression: str) -> str:
        """SQL: the number of the part that holds a time; below 0 before the first, PARTS or more after the last."""
        return f"CAST(ceil((epoch_ms({expression}) - {_ms(self.begin)}) / {_ms_of(self.step)}) AS BIGINT) - 1"


def reported_period(reader: WarehouseReader, now: datetime, since: datetime | None) -> Period:
    """From `since`, else the first thing seen in the last 30 days, to the newest thing seen, none of it after `now`."""
    return _period([_seen(reader, table, columns, now) for table, columns in EVIDENCE.items()], now, since)


def pass_period(reader: WarehouseReader, now: datetime, since: datetime | None) -> Period:
    """The same of passes, which have a clock of their own: old transactions may be read today."""
    return _period([_seen(reader, table, columns, None) for table, columns in PASSES.items()], now, since)


def _period(seen: Sequence[tuple[datetime | None, datetime | None]], now: datetime, since: datetime | None) -> Period:
    end = max((last for _, last in seen if last is not None), default=now)
    first = min((first for first, _ in seen if first is not None), default=end)
    # A part does not hold the moment at which it begins.
    begin = (since or max(end - LONGEST, first)) - timedelta(milliseconds=1)
    return Period(min(begin, end - SHORTEST), end)


def _seen(
    reader: WarehouseReader, table: str, columns: tuple[str, str], until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    first, last = columns
    is_seen = f"$until IS NULL OR {last} <= $until"
    sql = f"""SELECT {utc(f"min({first})")}, {utc(f"max({last}) FILTER ({is_seen})")} FROM seen"""
    scan = Scan(table, tuple(dict.fromkeys(columns)))
    earliest, latest = next(reader.query(sql, {"until": until}, {"seen": scan}))
    return in_utc(earliest), in_utc(latest)


def _ms(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)


def _ms_of(span: timedelta) -> float:
    return span / timedelta(milliseconds=1)
