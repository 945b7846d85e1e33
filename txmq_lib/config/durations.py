"""Spans of time as people write them in settings, held as whole milliseconds."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)")
_LONGEST_MS = 36_500 * _UNITS_MS["d"]


def milliseconds(value: object, unit: str) -> int:
    """A number of `unit`, or a text with its own unit, in ms; ValueError where `value` is neither or out of range."""
    if isinstance(value, str) and (match := _TEXT.fullmatch(value.strip())):
        number, unit = Decimal(match["number"]), match["unit"]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(str(value))
    else:
        raise ValueError(f"must be a number of {unit} or a text such as 500ms, 2s, 3m, 72h or 3d, not {value!r}")
    if not number.is_finite() or not 0 < number * _UNITS_MS[unit] <= _LONGEST_MS:
        raise ValueError(f"must be more than 0 and at most 36500d, not {value!r}")
    span = number * _UNITS_MS[unit]
    if span != span.to_integral_value():
        raise ValueError(f"must be whole milliseconds, not {value!r}")
    return int(span)


def duration_text(span_ms: int) -> str:
    """The one way txmq writes a span: in the largest of hours, minutes, seconds and milliseconds that is exact."""
    unit = next(unit for unit in ("h", "m", "s", "ms") if span_ms % _UNITS_MS[unit] == 0)
    return f"{span_ms // _UNITS_MS[unit]}{unit}"
