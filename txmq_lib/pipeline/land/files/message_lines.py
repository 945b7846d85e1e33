"""Lines of the landing contract become decoded records in Arrow: those beyond doubt. Must not know files.

rules.landing_contract says what a line must be. Here lines that look alike are parsed together (line_blocks.py), others
one by one by Python's own parser, which takes JSON and no more; what is not plainly as the contract wants it is left
to those rules.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.names import HIGHEST_OFFSET, PROPERTY_MAX_OFFSET, READER_PROPERTIES
from txmq_lib.pipeline.land.files.line_blocks import Shape, plain_lines
from txmq_lib.pipeline.land.records.record_rows import PLAIN_LONG, Properties, plain_numbers
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS, MESSAGE_FIELDS, OFFSETS
from txmq_lib.rules.moments import LATEST_MS
from txmq_lib.spark.arrays import Numbers

# A longer line is not looked at here: its body is beyond what rows from Arrow have (record_rows.MOST_BODY_BYTES).
MOST_LINE_BYTES: Final = 96 << 10
# Beside its body: Spark's parser takes no longer name.
MOST_BESIDE: Final = 48 << 10

# So many lines are parsed at once, and at most so many that do not fit together one by one.
TOGETHER: Final = 4096
FEW: Final = 8

_values: Final = itemgetter(*MESSAGE_FIELDS)
_KINDS: Final = tuple({"string": str, "map<string,string>": dict}.get(kind, int) for kind in MESSAGE_FIELDS.values())
_ARROW_KINDS: Final = {str: pa.string(), int: pa.int64(), dict: pa.map_(pa.string(), pa.string())}
_PARSED: Final = {name: _ARROW_KINDS[kind] for name, kind in zip(MESSAGE_FIELDS, _KINDS, strict=True)}
_FIELD_OF: Final = {
    column: name
    for column, name in zip(MESSAGE_COLUMNS, MESSAGE_FIELDS, strict=True)
    if name not in ("properties", "bodyBase64")
}
_PROPERTIES: Final = tuple(MESSAGE_FIELDS).index("properties")
_SIMPLE: Final = frozenset((str, int, bool, type(None)))
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
# Bits behind the last byte, over which readers of base64 differ.
_LOOSE_BITS: Final = "[^AQgw=]==$|[^AEIMQUYcgkosw048=]=$"
_TOO_FAR: Final = 2**63 - 1
_INT: Final = 2**31 - 1
_BOUNDS: Final = {
    **dict.fromkeys(OFFSETS, (0, HIGHEST_OFFSET)),
    **dict.fromkeys(("bornTimestamp", "storeTimestamp"), (0, LATEST_MS)),
    **dict.fromkeys(("queueId", "reconsumeTimes"), (0, _INT)),
    **dict.fromkeys(("sysFlag", "flag"), (-1 - _INT, _INT)),
}


class _RepeatedNameError(ValueError):
    """A name that is in an object twice."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _RepeatedNameError
    return fields


# As `decode`, without a look for spaces in front.
_scan: Final = cast("Any", json.JSONDecoder(parse_constant=_no_number, object_pairs_hook=_unrepeated)).scan_once


def new_shape() -> Shape:
    """What lines of messages look like, before any was seen."""
    return Shape(_PARSED)


def records_of(lines: pa.RecordBatch, shape: Shape | None = None) -> tuple[pa.RecordBatch, pa.Int64Array, Numbers]:
    """The records of lines (large_lines.LANDING_SCHEMA) beyond doubt, where their queues ended, and the lines' places.

    Properties are as a broker stores them (rules.landing_contract.stored_properties), in the order of their names.

    shape  of the lines before these, which it goes on to learn: those that look like them are parsed together
    """
    parsed, places = _parsed(lines, shape or new_shape())
    lengths = pc.binary_length(lines["value"]).take(pa.array(places)).to_numpy()
    is_bounded = _within_bounds(parsed) & (lengths - pc.binary_length(parsed["bodyBase64"]).to_numpy() <= MOST_BESIDE)
    if not is_bounded.all():
        parsed, places = parsed.filter(pa.array(is_bounded)), places[is_bounded]
    bodies, is_sure = _bodies(parsed["bodyBase64"])
    stored, told_ends, has_plain_end = _properties(parsed["properties"])
    is_sure &= has_plain_end
    arrays = {
        **{column: _column(column, parsed[name]) for column, name in _FIELD_OF.items()},
        "properties": stored,
        "body": bodies,
        "reason": pa.nulls(len(places), pa.string()),
        "raw": pa.nulls(len(places), pa.binary()),
        "position": lines["position"].take(pa.array(places)),
    }
    records = pa.RecordBatch.from_arrays([arrays[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)
    is_told = pc.and_(pc.greater(told_ends, records["queue_offset"]), pc.less_equal(told_ends, HIGHEST_OFFSET))
    ends = pc.if_else(is_told, told_ends, None)
    if is_sure.all():
        return records, ends, places
    sure = pa.array(is_sure)
    return records.filter(sure), ends.filter(sure), places[is_sure]


def _parsed(lines: pa.RecordBatch, shape: Shape) -> tuple[pa.RecordBatch, Numbers]:
    """The fields of lines that have each of them, as the type it should have, and the lines' places."""
    values = lines["value"].cast(pa.binary())
    is_looked_at = pc.and_(
        pc.and_(lines["reason"].is_null(), lines["long_body"].is_null()),
        pc.less_equal(pc.binary_length(values), MOST_LINE_BYTES),
    ).to_numpy(zero_copy_only=False)
    is_plain = is_looked_at & plain_lines(values)
    plain, odd = np.flatnonzero(is_plain), np.flatnonzero(is_looked_at & ~is_plain)
    parts = [_one_by_one(values, odd, shape)]
    for first in range(0, len(plain), TOGETHER):
        parts.extend(_together(values, plain[first : first + TOGETHER], shape))
    places = np.concatenate([places for _, places in parts])
    parsed = pa.concat_batches([batch for batch, _ in parts])
    if len(odd):
        order = np.argsort(places, kind="stable")
        return parsed.take(pa.array(order)), places[order]
    return parsed, places


def _together(values: pa.BinaryArray, places: Numbers, shape: Shape) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Plain lines parsed at once; where one of them does not fit, in halves."""
    try:
        batch = shape.parsed(_at(values, places))
    except ValueError:
        if len(places) <= FEW:
            yield _one_by_one(values, places, shape)
            return
        half = len(places) // 2
        yield from _together(values, places[:half], shape)
        yield from _together(values, places[half:], shape)
    else:
        is_whole = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in batch.columns])
        yield (batch, places) if is_whole.all() else (batch.filter(pa.array(is_whole)), places[is_whole])


def _at(values: pa.BinaryArray, places: Numbers) -> pa.BinaryArray:
    is_stretch = len(places) and places[-1] - places[0] == len(places) - 1
    return values.slice(places[0], len(places)) if is_stretch else values.take(pa.array(places))


def _one_by_one(values: pa.BinaryArray, places: Numbers, shape: Shape) -> tuple[pa.RecordBatch, Numbers]:
    found, rows = [], []
    for place, value in zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True):
        try:
            text = value.decode()
            fields, end = _scan(text, 0)
            row = _values(fields)
            if _is_sure(text, fields, row) and not text[end:].strip(" \t\r\n"):
                shape.learn(fields)
                rows.append(row)
                found.append(place)
        except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
            continue
    columns = zip(*rows, strict=True) if rows else [()] * len(_PARSED)
    arrays = [
        pa.array([sorted(each.items()) for each in column] if name == "properties" else column, kind)
        for (name, kind), column in zip(_PARSED.items(), columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(_PARSED)), np.array(found, np.int64)


def _is_sure(text: str, fields: dict[str, Any], row: tuple[Any, ...]) -> bool:
    properties = row[_PROPERTIES]
    if tuple(map(type, row)) != _KINDS or any(type(value) is not str for value in properties.values()):
        return False
    if "\\" in text and _SURROGATE.search(text):
        return False
    for value in fields.values():
        # Numbers of 64 bits, texts, words and the properties: of anything else two parsers may think differently.
        if type(value) is int and not -_TOO_FAR <= value <= _TOO_FAR:
            return False
        if type(value) not in _SIMPLE and value is not properties:
            return False
    return True


def _within_bounds(parsed: pa.RecordBatch) -> Numbers:
    """Whether every number of each row is one that its column may have."""
    is_within = np.ones(parsed.num_rows, bool)
    for name, (least, most) in _BOUNDS.items():
        column = parsed[name].to_numpy()
        is_within &= (column >= least) & (column <= most)
    return is_within


def _bodies(texts: pa.StringArray) -> tuple[pa.BinaryArray, Numbers]:
    """What texts say in base64, and whether every reader of base64 would take them for that."""
    # As Java writes base64 for mail, Spark's to_json among them: in lines of 76. Java takes no line's end between the
    # two of a padding.
    joined = pc.replace_substring(texts, "\r\n", "")
    is_torn = pc.and_not(pc.ends_with(joined, "=="), pc.ends_with(pc.ascii_rtrim(texts, "\r\n"), "=="))
    is_loose = pc.match_substring_regex(pc.binary_slice(joined.cast(pa.binary()), -3), _LOOSE_BITS)
    is_sure: Numbers = ~pc.or_(is_torn, is_loose).to_numpy(zero_copy_only=False)
    bodies = []
    for place, text in enumerate(joined.to_pylist()):
        try:
            bodies.append(binascii.a2b_base64(text, strict_mode=True))
        except ValueError:
            bodies.append(b"")
            is_sure[place] = False
    return pa.array(bodies, pa.binary()), is_sure


def _properties(whole: pa.MapArray) -> tuple[pa.MapArray, pa.Int64Array, Numbers]:
    """Properties as stored, the end that a reading client told with each row, and which of these are plain numbers."""
    told_ends, is_odd = plain_numbers(Properties(whole).of(PROPERTY_MAX_OFFSET), PLAIN_LONG, pa.int64())
    offsets = whole.offsets.to_numpy().astype(np.int64)
    first, count = offsets[0], offsets[-1] - offsets[0]
    names, values = whole.keys.slice(first, count), whole.items.slice(first, count)
    is_stored = pc.and_(pc.and_(pc.not_equal(names, ""), pc.not_equal(values, "")),
                        pc.invert(pc.is_in(names, pa.array(READER_PROPERTIES))))  # fmt: skip
    if not pc.all(is_stored).as_py() and count:
        kept = np.concatenate([[0], np.cumsum(is_stored.to_numpy(zero_copy_only=False))])
        whole = pa.MapArray.from_arrays(
            pa.array(kept[offsets - first], pa.int32()), names.filter(is_stored), values.filter(is_stored)
        )
    return whole, told_ends, ~is_odd


def _column(name: str, values: pa.Array) -> pa.Array:
    kind = ARROW_SCHEMA.field(name).type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("ms", "UTC")).cast(kind)
    return values.cast(kind)
