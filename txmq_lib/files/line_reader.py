"""Text files into Arrow batches of lines, in bounded memory, whatever the bytes are. Must not know Spark or meanings.

A line ends as Spark's own reader ends it: at LF, CR or both. Its place is the offset of its first byte in the text,
unpacked. What cannot be read, or is too long, is a row with a `reason`, and reading goes on.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.files.plain_file import open_plain
from txmq_lib.names import FILE_BROKEN, FILE_UNREADABLE, LINE_TOO_LONG

CHUNK_BYTES: Final = 4 << 20
BATCH_BYTES: Final = 4 << 20
BATCH_ROWS: Final = 8192
MAX_RAW_BYTES: Final = 64 << 10
PLACE_BITS: Final = 40  # of a position, for the place within one file
GZIP_ENDING: Final = b".gz"
_MARK: Final = b"\xef\xbb\xbf"
_END_OF_LINE: Final = re.compile(rb"\r\n|\r|\n")

LINES_SCHEMA: Final = pa.schema(
    [
        ("value", pa.string()),  # bytes as they came: no UTF-8 where the line is none
        ("source", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)


class Stretch(NamedTuple):
    """The lines of a file that begin in [start, stop) of its text; a `stop` of null is the end."""

    number: int  # of the file, in the order given
    name: str  # what its lines are said to come from
    path: bytes
    start: int = 0
    stop: int | None = None


class _Block(NamedTuple):
    """Whole lines one after the other; or the head of one that is too long, with its length."""

    place: int
    text: bytes
    too_long: int = 0


def read_lines(stretches: Sequence[Stretch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    """The lines of all stretches, those of spaces alone left out, in batches bounded in rows and bytes."""
    waiting: list[pa.RecordBatch] = []
    held_bytes = held_rows = 0
    for stretch in stretches:
        for batch in _batches(stretch, max_line_bytes):
            waiting.append(batch)
            held_bytes += batch.nbytes
            held_rows += batch.num_rows
            if held_bytes >= BATCH_BYTES or held_rows >= BATCH_ROWS:
                yield _joined(waiting)
                waiting, held_bytes, held_rows = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _batches(stretch: Stretch, max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    reached = stretch.start
    try:
        with _opened(stretch.path) as text:
            for block in _blocks(text, stretch, max_line_bytes):
                reached = block.place + max(len(block.text), block.too_long)
                yield _batch(stretch, block, max_line_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as failure:
        yield _told(stretch, reached, FILE_BROKEN, f"from here on it is no gzip: {failure}")
    except OSError as failure:
        yield _told(stretch, reached, FILE_UNREADABLE, f"from here on it cannot be read: {failure.strerror or failure}")


@contextmanager
def _opened(path: bytes) -> Iterator[BinaryIO]:
    with os.fdopen(open_plain(os.fsdecode(path)), "rb", buffering=0) as plain:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=plain) if path.endswith(GZIP_ENDING) else plain)


def _blocks(text: BinaryIO, stretch: Stretch, max_line_bytes: int) -> Iterator[_Block]:
    """Blocks of the lines in the stretch, and where it begins inside a line the rest of that one."""
    place, rest = _begun(text, stretch.start)
    long: _Block | None = None  # a line of which no more is kept
    while (stretch.stop is None or place < stretch.stop or long is not None) and (chunk := text.read(CHUNK_BYTES)):
        whole = rest + chunk
        if long is not None:
            if stretch.stop is not None and long.place < stretch.start and place >= stretch.stop:
                return  # who began with it tells of it
            end = _END_OF_LINE.search(whole)
            passed = end.end() if end else len(whole)
            long = long._replace(too_long=long.too_long + (end.start() if end else passed))
            place, whole = place + passed, whole[passed:]
            if end is None:
                continue
            yield long
            long = None
        # A CR may be half of an end of line: the other half then ends an empty line, which is none.
        lines_end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if lines_end:
            yield _Block(place, whole[:lines_end])
        place, rest = place + lines_end, whole[lines_end:]
        if len(rest) > max_line_bytes:
            long = _Block(place, rest[:MAX_RAW_BYTES], len(rest))
            place, rest = place + len(rest), b""
    if long is not None:
        yield long
    elif rest:
        yield _Block(place, rest)


def _begun(text: BinaryIO, start: int) -> tuple[int, bytes]:
    """Where reading begins, and what has been read already."""
    if start:
        return text.seek(start - 1), b""  # the line that this byte belongs to, or ends, is not the stretch's
    first = text.read(len(_MARK))
    return (len(_MARK), b"") if first == _MARK else (0, first)


def _batch(stretch: Stretch, block: _Block, max_line_bytes: int) -> pa.RecordBatch:
    if block.too_long:
        if not _is_within(stretch, block.place):
            return _EMPTY
        return _told(stretch, block.place, LINE_TOO_LONG, _length_told(block.too_long, max_line_bytes), block.text)
    values, places = _lines(block)
    is_kept = pc.and_(_is_said(values), pc.greater_equal(places, stretch.start))
    if stretch.stop is not None:
        is_kept = pc.and_(is_kept, pc.less(places, stretch.stop))
    if not pc.all(is_kept).as_py():
        values, places = values.filter(is_kept), places.filter(is_kept)
    lengths = pc.binary_length(values)
    is_long = pc.greater(lengths, max_line_bytes)
    none = pa.nulls(len(values), pa.string())
    reason, detail = none, none
    if pc.any(is_long).as_py():
        measured = zip(places.to_pylist(), lengths.to_pylist(), strict=True)
        details = [f"{stretch.name}:{place}: {_length_told(length, max_line_bytes)}" for place, length in measured]
        detail = pc.if_else(is_long, pa.array(details, pa.string()), none)
        reason = pc.if_else(is_long, LINE_TOO_LONG, none)
        heads = pc.binary_slice(values.cast(pa.binary()), 0, MAX_RAW_BYTES)
        values = _as_text(pc.if_else(is_long, heads, values.cast(pa.binary())))
    sources = pc.binary_join_element_wise(stretch.name, places.cast(pa.string()), ":")
    positions = pc.add(places, stretch.number << PLACE_BITS)
    return pa.RecordBatch.from_arrays([values, sources, positions, reason, detail], schema=LINES_SCHEMA)


def _is_said(values: pa.StringArray) -> pa.BooleanArray:
    """Which lines hold anything but spaces."""
    if pc.any(pc.starts_with(values, " ")).as_py():
        values = pc.ascii_trim(values, characters=" ")
    return pc.greater(pc.binary_length(values), 0)


def _lines(block: _Block) -> tuple[pa.StringArray, pa.Int64Array]:
    """The lines of a block without their ends, and the place of each."""
    if b"\r" not in block.text:
        lines = pc.split_pattern(pa.array([block.text], pa.binary()), b"\n").flatten()
        if block.text.endswith(b"\n"):
            lines = lines.slice(0, len(lines) - 1)  # what follows the last end is no line
        with_ends = pc.add(pc.binary_length(lines).cast(pa.int64()), 1)
        starts = pc.subtract(pc.cumulative_sum(with_ends), with_ends)
        return _as_text(lines), pc.add(starts, block.place)
    starts = [0, *(end.end() for end in _END_OF_LINE.finditer(block.text))]
    ends = [*(end.start() for end in _END_OF_LINE.finditer(block.text)), len(block.text)]
    lines = pa.array([block.text[start:end] for start, end in zip(starts, ends, strict=True)], pa.binary())
    return _as_text(lines), pc.add(pa.array(starts, pa.int64()), block.place)


def _as_text(values: pa.BinaryArray) -> pa.StringArray:
    return pc.cast(values, pa.string(), safe=False)


def _is_within(stretch: Stretch, place: int) -> bool:
    return place >= stretch.start and (stretch.stop is None or place < stretch.stop)


def _length_told(length: int, most: int) -> str:
    return f"a line of {length} bytes; at most {most} are read"


def _told(stretch: Stretch, place: int, reason: str, detail: str, raw: bytes = b"") -> pa.RecordBatch:
    """A row for what could not be read."""
    columns = [
        _as_text(pa.array([raw], pa.binary())),
        pa.array([f"{stretch.name}:{place}"], pa.string()),
        pa.array([(stretch.number << PLACE_BITS) + place], pa.int64()),
        pa.array([reason], pa.string()),
        pa.array([f"{stretch.name}:{place}: {detail}"], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LINES_SCHEMA)


_EMPTY: Final = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in LINES_SCHEMA], schema=LINES_SCHEMA)
