"""The clock, read here and nowhere below, and `--now`, which stands for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from txmq_lib.config.durations import milliseconds
from txmq_lib.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Now = Annotated[
    str | None,
    typer.Option(
        "--now", metavar="T", help="The pass's clock: ISO 8601 (UTC where no zone is given) or epoch milliseconds."
    ),
]

ClockNow = Annotated[
    str | None,
    typer.Option("--now", metavar="T", help="The moment ages count from; without it the time of day."),
]
LEAST_EPOCH_MS = 10**11  # of 1973: nobody means an earlier one
SINCE_HELP = "Only from this time on: ISO 8601, epoch milliseconds, or a span before now (90s, 10m, 2h, 3d)."


def wall_clock() -> datetime:
    """The time of day, UTC, in whole milliseconds as the tables keep it."""
    return _whole_milliseconds(datetime.now(UTC))


def moment(text: str | None, *, option: str = "--now") -> datetime:
    """The value of `option` as a time in UTC, in whole milliseconds; the wall clock where it was not given."""
    if text is None:
        return wall_clock()
    try:
        if text.removeprefix("-").isdecimal():
            return EPOCH + timedelta(milliseconds=int(text))
        parsed = datetime.fromisoformat(text)
        return _whole_milliseconds((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text}: give ISO 8601 such as 2026-11-21T10:30:51.730Z,"
            " or epoch milliseconds such as 1795257051730"
        ) from None


def span(text: str, option: str) -> timedelta:
    """A span of time such as 90s, 10m, 2h or 3d; a bare number counts seconds. UsageError names the option."""
    try:
        return timedelta(milliseconds=milliseconds(float(text) if text.replace(".", "", 1).isdecimal() else text, "s"))
    except ValueError as error:
        raise UsageError(f"{option} {error}") from None


def time_ago(text: str, now: datetime) -> datetime:
    """A moment as `moment` takes it, or a span before `now`; UsageError where a number is neither."""
    if text.isdecimal() and int(text) < LEAST_EPOCH_MS:
        raise UsageError(
            f"--since {text}: a span needs its unit, such as {text}h or {text}m; epoch milliseconds have 13 digits"
        )
    try:
        return now - timedelta(milliseconds=milliseconds(text, "s"))
    except ValueError:
        try:
            return moment(text, option="--since")
        except UsageError as error:
            raise UsageError(f"{error.message}, or a span such as 90s, 10m, 2h or 3d") from None


def _whole_milliseconds(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
