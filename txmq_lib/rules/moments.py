"""Milliseconds and timestamps of hostile input, without ever raising. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 9999-12-31T23:59:59.999Z: later stamps are no times anybody meant, and overflow microseconds.
LATEST_MS = 253_402_300_799_999


def is_time(ms: Column) -> Column:
    """True for epoch milliseconds from 1970 to the year 9999."""
    return (ms >= 0) & (ms <= LATEST_MS)


def epoch_ms(moment: datetime) -> int:
    """Whole epoch milliseconds of a moment with a time zone."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def epoch_us(moment: datetime) -> int:
    """Epoch microseconds of a moment with a time zone."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def timestamp_of(ms: Column) -> Column:
    """TIMESTAMP of epoch milliseconds; null outside 1970 to the year 9999."""
    return F.when(is_time(ms), F.timestamp_millis(ms))


def age_ms(now: datetime, since: Column) -> Column:
    """Milliseconds from `since` to `now`; negative for what was born in the future."""
    return F.unix_millis(F.lit(now)) - F.unix_millis(since)


def later(moment: Column, ms: Column) -> Column:
    """`moment` plus `ms` milliseconds, kept within 1970 to the year 9999; null where `moment` is."""
    sum_ms = F.unix_millis(moment) + ms
    return F.when(sum_ms.isNotNull(), F.timestamp_millis(F.greatest(F.least(sum_ms, F.lit(LATEST_MS)), F.lit(0))))
