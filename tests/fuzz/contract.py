"""The landing contract once more in plain Python: which lines are good, what they say, what is wrong with others.

Written from the contract, not from txmq's rules; Spark is not used. Numbers of an end, an offset report or an ack may
be texts. What the contract leaves open (a field named twice, a fraction among properties) is `open`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LATEST_MS = 253_402_300_799_999
HIGHEST_OFFSET = 2**62
DEEPEST = 900  # nested values that must be read; far deeper ones need not be, nor longer names
LONGEST_NAME = 50_000
MESSAGE_FIELDS = {
    "topic": str,
    "queueId": 32,
    "queueOffset": 64,
    "commitLogOffset": 64,
    "sysFlag": 32,
    "flag": 32,
    "bornTimestamp": 64,
    "storeTimestamp": 64,
    "bornHost": str,
    "storeHost": str,
    "offsetMsgId": str,
    "reconsumeTimes": 32,
    "preparedTransactionOffset": 64,
    "properties": dict,
    "bodyBase64": str,
}
NOT_NEGATIVE = ("queueId", "queueOffset", "commitLogOffset", "reconsumeTimes", "preparedTransactionOffset")
OFFSETS = ("queueOffset", "commitLogOffset", "preparedTransactionOffset")
END_NUMBERS = {"ts": 64, "tranStateTableOffset": 64, "commitLogOffset": 64, "commitOrRollback": 32}
END_TEXTS = ("producerGroup", "msgId", "transactionId", "bname", "topic")
ACK_EVENTS = ("allocated", "taken", "acked", "dropped")
WHOLE = re.compile(r"-?[0-9]+")


@dataclass
class Judgement:
    """`row` of a good line by field name; else what is wrong; `open` where the contract does not say."""

    row: dict[str, Any] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)
    is_open: bool = False


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written."""


class Fraction(str):
    """A number with a point or an exponent, as it was written."""

    __slots__ = ()


def judged(kind: str, line: bytes, broker_name: str = "b") -> Judgement:
    """One line of a kind (message, end, offset, ack)."""
    try:
        parsed = json.loads(
            line.decode("utf-8"), object_pairs_hook=Pairs, parse_constant=_no_json, parse_float=Fraction
        )
    except RecursionError:
        return Judgement(is_open=True)
    except ValueError as error:
        # Python refuses to read a whole number of thousands of digits, which is JSON all the same.
        return (
            Judgement(is_open=True) if "integer string conversion" in str(error) else Judgement(faults={"BROKEN_JSON"})
        )
    if _is_beyond_bounds(parsed):
        return Judgement(is_open=True)
    if not isinstance(parsed, Pairs):
        return Judgement(faults={"BROKEN_JSON"})
    names = [name for name, _ in parsed]
    verdict = JUDGES[kind](dict(parsed), broker_name)
    verdict.is_open |= len(set(names)) < len(names)
    return verdict


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _is_beyond_bounds(parsed: Any) -> bool:
    waiting = [(parsed, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, Pairs) and any(len(name) > LONGEST_NAME for name, _ in value):
            return True
        if depth > DEEPEST:
            return True
        if isinstance(value, list):
            waiting += [(item[1] if isinstance(value, Pairs) else item, depth + 1) for item in value]
    return False


def message(fields: dict[str, Any], _: str) -> Judgement:
    """A MessageExt: every field required, numbers are numbers."""
    found = Judgement()
    for name, type_ in MESSAGE_FIELDS.items():
        value = fields.get(name)
        if value is None:
            found.faults.add("MISSING_FIELD")
        elif not _is_of(type_, value):
            found.faults.add("WRONG_TYPE")
        else:
            found.row[name] = _kept(value) if isinstance(value, str) else value
    row = found.row
    found.faults |= {"NEGATIVE_NUMBER" for name in NOT_NEGATIVE if row.get(name, 0) < 0}
    found.faults |= {"OFFSET_OUT_OF_RANGE" for name in OFFSETS if row.get(name, 0) > HIGHEST_OFFSET}
    found.faults |= _time_faults(row, ("bornTimestamp", "storeTimestamp"))
    if isinstance(row.get("properties"), Pairs):
        row["properties"], is_open = _texts(found, row["properties"])
        found.is_open |= is_open
    if isinstance(row.get("bodyBase64"), str):
        try:
            # Python takes padding by the group of four that nobody asked for.
            if len(row["bodyBase64"]) % 4:
                raise ValueError(len(row["bodyBase64"]))
            row["bodyBase64"] = base64.b64decode(row["bodyBase64"], validate=True)
        except (binascii.Error, ValueError):
            found.faults.add("BODY_NOT_BASE64")
            # Readers differ over white space, missing padding and bits behind the last byte.
            found.is_open |= re.fullmatch(r"[A-Za-z0-9+/\s]*={0,2}\s*", row["bodyBase64"]) is not None
    return found


def end(fields: dict[str, Any], broker_name: str) -> Judgement:
    """An END_TRANSACTION, flat or under `header`."""
    header = fields.get("header")
    under = dict(header) if isinstance(header, Pairs) else {}
    found = Judgement(is_open=isinstance(header, Pairs) and len(under) < len(header))
    merged = {**fields, **{name: value for name, value in under.items() if name != "ts" and value is not None}}
    _take_numbers(found, merged, END_NUMBERS)
    _take_texts(found, merged, END_TEXTS, required=("producerGroup",))
    _take_flag(found, merged, "fromTransactionCheck", default=False)
    row = found.row
    found.faults |= {
        "NEGATIVE_NUMBER" for name in ("tranStateTableOffset", "commitLogOffset") if (row.get(name) or 0) < 0
    }
    found.faults |= _time_faults(row, ("ts",))
    if row.get("bname") not in (None, broker_name):
        found.faults.add("BROKER_MISMATCH")
    return found


def offset(fields: dict[str, Any], _: str) -> Judgement:
    """An offset report."""
    found = Judgement()
    _take_numbers(found, fields, {"ts": 64, "queueId": 32, "offset": 64})
    _take_texts(found, fields, ("group", "topic", "clientId"), required=("group", "topic"))
    _take_flag(found, fields, "increaseOnly", default=True)
    found.faults |= {"NEGATIVE_NUMBER" for name in ("queueId", "offset") if (found.row.get(name) or 0) < 0}
    found.faults |= _time_faults(found.row, ("ts",))
    return found


def ack(fields: dict[str, Any], _: str) -> Judgement:
    """What a consumer did with a queue."""
    found = Judgement()
    texts = ("group", "topic", "clientId", "event")
    _take_numbers(found, fields, {"ts": 64, "queueId": 32})
    _take_texts(found, fields, texts, required=texts)
    event, offsets_given = found.row.get("event"), fields.get("offsets")
    if event is not None and event not in ACK_EVENTS:
        found.faults.add("UNKNOWN_EVENT")
    offsets: list[int] = []
    if isinstance(offsets_given, list) and not isinstance(offsets_given, Pairs):
        numbers = [_number(value, 64) for value in offsets_given]
        found.is_open |= any(isinstance(value, str) and not _is_plain(value) for value in offsets_given)
        if None in numbers:
            found.faults.add("WRONG_TYPE")
        offsets = [number for number in numbers if number is not None]
        found.faults |= {"NEGATIVE_NUMBER" for number in offsets if number < 0}
    elif offsets_given is not None:
        found.faults.add("WRONG_TYPE")
    if event in ("taken", "acked"):
        found.faults |= {"MISSING_FIELD"} if offsets_given is None else set()
        found.row["offsets"] = offsets
    else:
        found.row["offsets"] = []
    found.faults |= {"NEGATIVE_NUMBER"} if (found.row.get("queueId") or 0) < 0 else set()
    found.faults |= _time_faults(found.row, ("ts",))
    return found


JUDGES: dict[str, Callable[[dict[str, Any], str], Judgement]] = {
    "message": message,
    "end": end,
    "offset": offset,
    "ack": ack,
}


def _is_of(type_: object, value: Any) -> bool:
    if type_ is str:
        return isinstance(value, str) and not isinstance(value, Fraction)
    if type_ is dict:
        return isinstance(value, Pairs)
    return type(value) is int and -(2 ** (type_ - 1)) <= value < 2 ** (type_ - 1)


def _texts(found: Judgement, pairs: Pairs) -> tuple[dict[str, str | None], bool]:
    names = [_kept(name) for name, _ in pairs]
    if len(set(names)) < len(names):
        found.faults.add("PROPERTY_REPEATED")
    if any(isinstance(value, list) for _, value in pairs):
        found.faults.add("WRONG_TYPE")
    is_open = any(isinstance(value, Fraction) or (type(value) is int and abs(value) >= 2**63) for _, value in pairs)
    return {_kept(name): _as_text(value) for name, value in pairs}, is_open


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else _kept(value)
    return json.dumps(value)


def _kept(text: str) -> str:
    """A text as a table can hold it: half a surrogate pair is a question mark there."""
    return text.encode("utf-8", "replace").decode()


def _take_numbers(found: Judgement, fields: dict[str, Any], numbers: dict[str, int]) -> None:
    for name, bits in numbers.items():
        value = fields.get(name)
        if value is None:
            found.faults.add("MISSING_FIELD")
            continue
        found.row[name] = _number(value, bits)
        found.faults |= {"WRONG_TYPE"} if found.row[name] is None else set()
        # Spaces around it, a plus: the contract says no more than that it may be a text.
        found.is_open |= isinstance(value, str) and not _is_plain(value)


def _is_plain(text: str) -> bool:
    return WHOLE.fullmatch(text) is not None or not re.search(r"[0-9]", text) or bool(re.search(r"[A-Za-z]", text))


def _number(value: Any, bits: int) -> int | None:
    if type(value) is int or (isinstance(value, str) and not isinstance(value, Fraction) and WHOLE.fullmatch(value)):
        number = int(value)
        return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None
    return None


def _take_texts(found: Judgement, fields: dict[str, Any], names: tuple[str, ...], *, required: tuple[str, ...]) -> None:
    for name in names:
        value = fields.get(name)
        if value is None:
            found.row[name] = None
            found.faults |= {"MISSING_FIELD"} if name in required else set()
        elif _is_of(str, value):
            found.row[name] = _kept(value)
        else:
            found.row[name] = None
            found.faults.add("WRONG_TYPE")


def _take_flag(found: Judgement, fields: dict[str, Any], name: str, *, default: bool) -> None:
    value = fields.get(name)
    known = {"true": True, "false": False, True: True, False: False}
    if value is None:
        found.row[name] = default
    elif type(value) in (str, bool) and (value if isinstance(value, bool) else value.lower()) in known:
        found.row[name] = known[value if isinstance(value, bool) else value.lower()]
    else:
        found.faults.add("WRONG_TYPE")


def _time_faults(row: dict[str, Any], names: tuple[str, ...]) -> set[str]:
    values = [row.get(name) for name in names]
    return {"TIMESTAMP_OUT_OF_RANGE" for ms in values if ms is not None and not 0 <= ms <= LATEST_MS}
