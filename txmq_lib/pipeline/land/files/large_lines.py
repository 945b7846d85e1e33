"""Large lines made small before the JVM sees them: it would hold the text of each ten times over to parse it.

A body is taken out of its line and decoded here; what is left has to be small, and JSON. Must not know Spark, nor judge
what the contract of fields judges: a small line, and one whose body is no base64, is judged like any other.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.files.line_reader import LINES_SCHEMA, MAX_RAW_BYTES
from txmq_lib.names import BROKEN_JSON, LINE_TOO_LONG

LARGE_BYTES: Final = 4 << 20  # a broker takes 32 KiB of properties: all but the body is far smaller
BODY_FIELD: Final = "bodyBase64"
LANDING_SCHEMA: Final = LINES_SCHEMA.append(pa.field("long_body", pa.binary()))
# Nothing is looked at twice: what is repeated is possessive, and no text can begin within another one.
_BODY: Final = re.compile(rb'(?<!\\)"bodyBase64"[ \t\r\n]*+:[ \t\r\n]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_OBJECT: Final = re.compile(rb'[ \t\r\n]*+\{[ \t\r\n]*+["}]')
# As nearly every writer spells it: read where it lies, for each copy of such a text is tens of MiB.
_PLAIN: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_BASE64: Final = re.compile(rb"([A-Za-z0-9+/]*+)(={0,2})")


class _Line(NamedTuple):
    """A large line made small.

    value      its text, with a note in place of the body; its beginning where it cannot be used
    long_body  the body; null where none was taken out, or it is no base64
    """

    value: bytes
    long_body: bytes | None = None
    reason: str | None = None
    detail: str | None = None


def made_small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of LINES_SCHEMA as batches of LANDING_SCHEMA, in which no text is larger than LARGE_BYTES."""
    for batch in batches:
        is_large = pc.greater(pc.binary_length(batch["value"]), LARGE_BYTES)
        large = pc.indices_nonzero(is_large).to_pylist()
        yield _made_small(batch, large) if large else _with_bodies(batch, pa.nulls(batch.num_rows, pa.binary()))


def _made_small(batch: pa.RecordBatch, large: list[int]) -> pa.RecordBatch:
    lines = {place: _small(batch["value"][place].as_buffer().to_pybytes()) for place in large}
    is_large = pa.array([place in lines for place in range(batch.num_rows)])

    def replaced(column: pa.Array, values: list[bytes | str | None]) -> pa.Array:
        return pc.replace_with_mask(column, is_large, pa.array(values, column.type))

    found = lines.values()
    columns = {
        "value": replaced(batch["value"].cast(pa.binary()), [line.value for line in found]).cast(
            pa.string(), safe=False
        ),
        "reason": replaced(batch["reason"], [line.reason for line in found]),
        "detail": replaced(batch["detail"], [line.detail for line in found]),
    }
    small = pa.RecordBatch.from_arrays(
        [columns.get(name, batch[name]) for name in LINES_SCHEMA.names], schema=LINES_SCHEMA
    )
    none = pa.nulls(batch.num_rows, pa.binary())
    return _with_bodies(small, replaced(none, [line.long_body for line in found]))


def _with_bodies(batch: pa.RecordBatch, bodies: pa.BinaryArray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, bodies], schema=LANDING_SCHEMA)


def _small(line: bytes) -> _Line:
    found = max(_BODY.finditer(line), key=lambda one: one.end() - one.start(), default=None)
    begun, ended = (0, 0) if found is None else found.span(1)
    text, rest, note = memoryview(line)[begun:ended], line, ""
    if found is not None:
        note = f"left out: {len(text)} bytes, SHA-256 {hashlib.sha256(text).hexdigest()}"
        rest = line[:begun] + note.encode() + line[ended:]
    if len(rest) > LARGE_BYTES:
        if not _OBJECT.match(line):
            return _broken(line)
        return _unusable(line, LINE_TOO_LONG, f"{len(rest)} bytes beside {BODY_FIELD}; at most {LARGE_BYTES} are read")
    try:
        fields = json.loads(rest.decode(), parse_int=str, parse_float=str)
        long_body = binascii.a2b_base64(text) if _PLAIN.fullmatch(text) else _decoded(_unescaped(line[begun:ended]))
    except (ValueError, RecursionError):
        return _broken(line)
    if not isinstance(fields, dict):
        return _broken(line)
    if fields.get(BODY_FIELD) != note:
        return _unusable(line, LINE_TOO_LONG, f"its longest {BODY_FIELD} is not the line's own")
    return _Line(rest, long_body)


def _unescaped(text: bytes) -> str:
    unescaped: str = json.loads(b'"' + text + b'"')
    return unescaped


def _decoded(text: str) -> bytes | None:
    """What base64 says, as Spark reads it: spaces anywhere, padding in full or none; null where it is none."""
    symbols = _BASE64.fullmatch("".join(text.split()).encode("utf-8", "surrogatepass"))
    if symbols is None:
        return None
    count, padding = len(symbols[1]), len(symbols[2])
    if count % 4 == 1 or (padding and (count + padding) % 4):
        return None
    return binascii.a2b_base64(symbols[1] + b"=" * (-count % 4))


def _broken(line: bytes) -> _Line:
    return _unusable(line, BROKEN_JSON, "the line is not one JSON object")


def _unusable(line: bytes, reason: str, why: str) -> _Line:
    # Quarantine knows one fault of another by reason, detail and text: of the text only the beginning is kept.
    detail = f"{why} (a line of {len(line)} bytes, SHA-256 {hashlib.sha256(line).hexdigest()})"
    return _Line(line[:MAX_RAW_BYTES], None, reason, detail)
