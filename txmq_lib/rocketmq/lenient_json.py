"""JSON as RocketMQ's brokers and name servers write it: keys that are numbers stand there without quotes."""

from __future__ import annotations

import json
import re
from typing import Final

# Outside of strings a number before a colon can only be a key; strings are matched first and so stay as they are.
# Whatever is looked at is taken, so that no damage makes the search go over the same bytes again.
_STRING_OR_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|(-?[0-9]++)(\s*+:)?', re.DOTALL)
_LONGEST_NUMBER: Final = 20  # a sign and 19 digits; Python raises where a number has thousands


def parsed(data: bytes) -> object:
    """The document in `data`, keys as texts; a number that no 64 bits can hold stays a text.

    Rule    R89
    Errors  ValueError where it is none, or is nested too deeply
    """
    try:
        document: object = json.loads(_STRING_OR_NUMBER.sub(_quote_bare_key, data.decode("utf-8")), parse_int=_number)
        return document
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_object(data: bytes) -> dict[str, object] | None:
    """A JSON object as Spark can store it; None for bytes that are none."""
    try:
        document = storable(parsed(data))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def storable(document: object) -> object:
    """`document` with a question mark for each half of a surrogate pair, which no table and no request can hold."""
    text = json.dumps(document, ensure_ascii=False)
    return document if text.isascii() else json.loads(text.encode("utf-8", "replace"))


def _quote_bare_key(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}"{found[2]}'


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else digits
