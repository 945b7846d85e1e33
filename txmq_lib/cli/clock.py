"""The clock, read here and nowhere below, and `--now`, which stands for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from txmq_lib.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Now = Annotated[
    str | None,
    typer.Option(
        "--now", metavar="T", help="The pass's clock: ISO 8601 (UTC where no zone is given) or epoch milliseconds."
    ),
]


def wall_clock() -> datetime:
    """The time of day, UTC, in whole milliseconds as the tables keep it."""
    return _whole_milliseconds(datetime.now(UTC))


def moment(text: str | None) -> datetime:
    """`--now` as a time in UTC, in whole milliseconds; the wall clock where it was not given."""
    if text is None:
        return wall_clock()
    try:
        if text.removeprefix("-").isdecimal():
            return EPOCH + timedelta(milliseconds=int(text))
        parsed = datetime.fromisoformat(text)
        return _whole_milliseconds((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        raise UsageError(
            f"--now {text}: give ISO 8601 such as 2026-11-21T10:30:51.730Z, or epoch milliseconds such as 1795257051730"
        ) from None


def _whole_milliseconds(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
