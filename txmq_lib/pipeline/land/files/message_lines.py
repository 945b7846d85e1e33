"""Lines of the landing contract become decoded records in Arrow: those beyond doubt. Must not know files.

rules.landing_contract says what a line must be. Here each line is parsed by Python's own parser, which takes JSON and
no more, and whatever is not plainly as the contract wants it is left to those rules.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Final, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.names import HIGHEST_OFFSET, PROPERTY_MAX_OFFSET, READER_PROPERTIES
from txmq_lib.pipeline.land.records.record_rows import PLAIN_LONG, Properties, plain_numbers
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS, MESSAGE_FIELDS, OFFSETS
from txmq_lib.rules.moments import LATEST_MS
from txmq_lib.spark.arrays import Numbers

# A longer line is not looked at here: its body is beyond what rows from Arrow have (record_rows.MOST_BODY_BYTES).
MOST_LINE_BYTES: Final = 96 << 10
# Beside its body: Spark's parser takes no longer name.
MOST_BESIDE: Final = 48 << 10

_FIELDS: Final = tuple(MESSAGE_FIELDS)
_values: Final = itemgetter(*_FIELDS)
_KINDS: Final = tuple({"string": str, "map<string,string>": dict}.get(kind, int) for kind in MESSAGE_FIELDS.values())
_SIMPLE: Final = frozenset((str, int, bool, type(None)))
_PROPERTIES, _BASE64_TEXT = _FIELDS.index("properties"), _FIELDS.index("bodyBase64")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
# Bits behind the last byte, over which readers of base64 differ.
_LOOSE_BITS: Final = re.compile(r"[^AQgw=]==|[^AEIMQUYcgkosw048=]=\Z")
_TOO_FAR: Final = 2**63 - 1
_INT: Final = 2**31 - 1
_BOUNDS: Final = {
    _FIELDS.index(name): bounds
    for name, bounds in {
        **dict.fromkeys(OFFSETS, (0, HIGHEST_OFFSET)),
        **dict.fromkeys(("bornTimestamp", "storeTimestamp"), (0, LATEST_MS)),
        **dict.fromkeys(("queueId", "reconsumeTimes"), (0, _INT)),
        **dict.fromkeys(("sysFlag", "flag"), (-1 - _INT, _INT)),
    }.items()
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
_scan: Final = cast("Any", json.JSONDecoder(parse_constant=_no_number)).scan_once
_scan_for_repeats: Final = json.JSONDecoder(object_pairs_hook=_unrepeated).decode


def records_of(lines: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Int64Array, Numbers]:
    """The records of lines (large_lines.LANDING_SCHEMA) beyond doubt, where their queues ended, and the lines' places.

    Properties are as a broker stores them (rules.landing_contract.stored_properties).
    """
    parsed = list(_parsed(lines))
    found = list(compress(parsed, _within_bounds([row for _, row, _ in parsed])))
    places = np.fromiter((place for place, _, _ in found), np.int64, len(found))
    rows, bodies = [row for _, row, _ in found], [body for _, _, body in found]
    stored, told_ends, is_sure = _properties([row[_PROPERTIES] for row in rows])
    columns = dict(zip(MESSAGE_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = {
        name: _column(name, columns.get(name, ())) for name in MESSAGE_COLUMNS if name not in ("properties", "body")
    }
    arrays |= {
        "properties": stored,
        "body": pa.array(bodies, pa.binary()),
        "reason": pa.nulls(len(rows), pa.string()),
        "raw": pa.nulls(len(rows), pa.binary()),
        "position": lines["position"].take(pa.array(places)),
    }
    records = pa.RecordBatch.from_arrays([arrays[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)
    is_told = pc.and_(pc.greater(told_ends, records["queue_offset"]), pc.less_equal(told_ends, HIGHEST_OFFSET))
    ends = pc.if_else(is_told, told_ends, None)
    if is_sure.all():
        return records, ends, places
    sure = pa.array(is_sure)
    return records.filter(sure), ends.filter(sure), places[is_sure]


def _parsed(lines: pa.RecordBatch) -> Iterator[tuple[int, tuple[Any, ...], bytes]]:
    """Place, values in the order of the contract, and body of each line beyond doubt."""
    is_looked_at = pc.and_(
        pc.and_(lines["reason"].is_null(), lines["long_body"].is_null()),
        pc.less_equal(pc.binary_length(lines["value"]), MOST_LINE_BYTES),
    )
    places = np.flatnonzero(is_looked_at.to_numpy(zero_copy_only=False))
    values = lines["value"].cast(pa.binary()).take(pa.array(places)).to_pylist()
    for place, value in zip(places.tolist(), values, strict=True):
        try:
            text = value.decode()
            fields, end = _scan(text, 0)
            row = _values(fields)
            if tuple(map(type, row)) != _KINDS or (end != len(text) and text[end:].strip(" \t\r\n")):
                continue
            # As Java writes base64 for mail, Spark's to_json among them: in lines of 76.
            # Java takes no line's end between the two of a padding.
            if "=\r\n=" in row[_BASE64_TEXT]:
                continue
            body = row[_BASE64_TEXT].replace("\r\n", "")
            if _is_sure(text, fields, row[_PROPERTIES], body):
                yield place, row, binascii.a2b_base64(body, strict_mode=True)
        except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
            continue


def _is_sure(text: str, fields: dict[str, Any], properties: dict[str, Any], body: str) -> bool:
    for value in properties.values():
        if type(value) is not str:
            return False
    if len(text) - len(body) > MOST_BESIDE or _LOOSE_BITS.search(body, max(len(body) - 3, 0)):
        return False
    if "\\" in text and _SURROGATE.search(text):
        return False
    texts = 0
    for value in fields.values():
        kind = type(value)
        texts += kind is str
        # Numbers of 64 bits, texts, words and the properties: of anything else two parsers may think differently.
        if kind is int and not -_TOO_FAR <= value <= _TOO_FAR:
            return False
        if kind not in _SIMPLE and value is not properties:
            return False
    if "\\\\" not in text:
        # Each name and each text has two quotes, and there are no others: none was repeated.
        return text.count('"') - text.count('\\"') == 2 * (len(fields) + texts + 2 * len(properties))
    _scan_for_repeats(text)
    return True


def _within_bounds(rows: list[tuple[Any, ...]]) -> Numbers:
    """Whether every number of each row is one that its column may have."""
    is_within = np.ones(len(rows), bool)
    for place, (least, most) in _BOUNDS.items():
        column = np.array([row[place] for row in rows], np.int64)
        is_within &= (column >= least) & (column <= most)
    return is_within


def _properties(rows: Sequence[dict[str, str]]) -> tuple[pa.MapArray, pa.Int64Array, Numbers]:
    """Properties as stored, the end that a reading client told with each row, and which of these are plain numbers."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in rows], dtype=np.int64)])
    names = pa.array(list(chain.from_iterable(rows)), pa.string())
    values = pa.array(list(chain.from_iterable(each.values() for each in rows)), pa.string())
    whole = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values)
    told_ends, is_odd = plain_numbers(Properties(whole).of(PROPERTY_MAX_OFFSET), PLAIN_LONG, pa.int64())
    is_stored = pc.and_(pc.and_(pc.not_equal(names, ""), pc.not_equal(values, "")),
                        pc.invert(pc.is_in(names, pa.array(READER_PROPERTIES))))  # fmt: skip
    if not pc.all(is_stored).as_py() and len(names):
        kept = np.concatenate([[0], np.cumsum(is_stored.to_numpy(zero_copy_only=False))])
        whole = pa.MapArray.from_arrays(
            pa.array(kept[offsets], pa.int32()), names.filter(is_stored), values.filter(is_stored)
        )
    return whole, told_ends, ~is_odd


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    kind = ARROW_SCHEMA.field(name).type
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(kind)
    return pa.array(values, kind)
