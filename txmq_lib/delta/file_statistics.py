"""What a log says of the values in a file: which of its columns may hold a number, or a moment, of some ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Ranges = Sequence[tuple[int, int]]

_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def may_hold(least: Any, greatest: Any, ranges: Ranges) -> bool:  # noqa: ANN401 - null or a number
    """Whether one of the values from `least` to `greatest` (null: not known) may be in one of `ranges`."""
    if least is None or greatest is None:
        return True
    return any(low <= greatest and least <= high for low, high in ranges)


def bounds_of(statistics: str) -> Mapping[str, tuple[int, int] | None]:
    """The least and greatest of each column of whole numbers or moments (epoch ms); None: all its values are null.

    A column of which this is not known is not there.
    """
    found = json.loads(statistics or "{}")
    least, greatest = found.get("minValues") or {}, found.get("maxValues") or {}
    bounds: dict[str, tuple[int, int] | None] = {
        name: None for name, nulls in (found.get("nullCount") or {}).items() if nulls == found.get("numRecords", -1)
    }
    for name in least.keys() & greatest.keys():
        ends = _number(least[name]), _number(greatest[name])
        if ends[0] is not None and ends[1] is not None:
            bounds[name] = (ends[0], ends[1])
    return bounds


def _number(value: Any) -> int | None:  # noqa: ANN401 - of JSON
    if isinstance(value, str):
        # Writers cut moments to milliseconds, and say their time zone. What else looks like one is asked for by nobody.
        try:
            return (datetime.fromisoformat(value) - _EPOCH) // _MS
        except (ValueError, TypeError):
            return None
    return value if type(value) is int else None
