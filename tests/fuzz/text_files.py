"""Text files of any bytes, plain or gzipped, whole or torn: every line once with its place, what cannot be read told of."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from fuzz.hostile import damaged

from txmq_lib.files import line_reader
from txmq_lib.files.line_reader import LINES_SCHEMA, Stretch, read_lines
from txmq_lib.pipeline.land.files import large_lines
from txmq_lib.pipeline.land.files.large_lines import made_small

PIECES = (b"a", b"{}", b"\n", b"\n", b"\r", b"\r\n", b" ", b"\xff", b"\0", b"\xe2\x80\xa8", b"bcdefgh" * 3, b"x" * 200)
MARK = b"\xef\xbb\xbf"
BODY_NAMES = ("topic", "properties", 'x"bodyBase64', "bodyBase64x", "\\")
BASE64 = "[A-Za-z0-9+/]*"
LOOKED_AT = (("value", pa.binary()), ("long_body", pa.binary()), ("reason", pa.string()))
NAMES = (b"a", b"a:b", b"\xff", b"%20", b"\xc3\xa9 {x}[1]*?", b"line\nend")


def text_file(chance: Random) -> int:
    """A plain file, cut into stretches at random, gives the lines that a plain split gives."""
    text = (MARK if chance.random() < 0.1 else b"") + b"".join(chance.choices(PIECES, k=chance.randrange(40)))
    most = chance.choice([3, 5, 20, 1000])
    cuts = {0, len(text), *(chance.randrange(4, len(text)) for _ in range(chance.randrange(4)) if len(text) > 4)}
    bounds = sorted(cuts)
    with _written(chance, text, b"") as path, _in_chunks_of(chance.choice([1, 2, 3, 7, 50, 1 << 20])):
        stretches = [Stretch(3, "n", path, start, stop) for start, stop in pairwise(bounds)]
        found = _rows(stretches, most)
    assert found == _expected(text, most), text
    return 1


def gzipped_file(chance: Random) -> int:
    """A gzipped file, good or damaged: lines of the text it was made of, and a word of what is missing."""
    text = b"".join(chance.choices(PIECES, k=chance.randrange(200)))
    packed = gzip.compress(text, mtime=0)
    hurt = damaged(chance, packed) if chance.random() < 0.7 else packed
    with _written(chance, hurt, b".gz") as path, _in_chunks_of(chance.choice([3, 50, 1 << 20])):
        batches = _batches([Stretch(0, "n", path)], 1000)
    reasons = [reason for batch in batches for reason in batch.column("reason").to_pylist() if reason]
    assert set(reasons) <= {"FILE_BROKEN", "LINE_TOO_LONG"}
    assert reasons.count("FILE_BROKEN") <= 1
    if hurt == packed:
        with _written(chance, hurt, b".gz") as path:
            assert _rows([Stretch(3, "n", path)], 1000) == _expected(text, 1000)
    return 1


def large_line(chance: Random) -> int:
    """A line that counts as large says what it said, its body beside it, or is told why not."""
    body = chance.randbytes(chance.randrange(300))
    spelt = base64.b64encode(body).decode()
    fields = {"bodyBase64": chance.choice([spelt, spelt, spelt.rstrip("="), f" {spelt}\n", spelt + "=", "\u00e9", 3])}
    for _ in range(chance.randrange(4)):
        fields[chance.choice(BODY_NAMES)] = chance.choice([spelt, {"bodyBase64": spelt}, [], "{", None, 1.5, "\ud800"])
    line = json.dumps(dict(chance.sample(sorted(fields.items()), len(fields)))).replace(
        "=", chance.choice(["=", "\\u003d"])
    )
    text = damaged(chance, line.encode()) if chance.random() < 0.4 else line.encode()
    one = pa.RecordBatch.from_pylist([{"value": text}], schema=pa.schema([("value", pa.binary())]))
    columns = [
        one["value"].cast(pa.string(), safe=False),
        *(pa.nulls(1, field.type) for field in list(LINES_SCHEMA)[1:]),
    ]
    before, large_lines.LARGE_BYTES = large_lines.LARGE_BYTES, max(1, len(text) - chance.choice([1, 1, 100]))
    try:
        [batch] = made_small(iter([pa.RecordBatch.from_arrays(columns, schema=LINES_SCHEMA)]))
    finally:
        large_lines.LARGE_BYTES = before
    [value], [long_body], [reason] = (batch[name].cast(to).to_pylist() for name, to in LOOKED_AT)
    if reason is None and value != text:
        said, left = json.loads(text), json.loads(value)
        note = left.pop("bodyBase64")
        assert note.startswith("left out: "), text
        was = said.pop("bodyBase64")
        assert left == said, text
        assert long_body == _decoded(was), text
    elif reason is not None:
        assert value == text[: line_reader.MAX_RAW_BYTES], text
    return 1


def _decoded(text: str) -> bytes | None:
    """Base64 with spaces anywhere, padded in full or not at all."""
    symbols = "".join(text.split())
    bare = symbols.rstrip("=")
    if len(symbols) - len(bare) not in (0, -len(bare) % 4) or len(bare) % 4 == 1 or not re.fullmatch(BASE64, bare):
        return None
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _expected(text: bytes, most: int) -> list[tuple[int, object]]:
    begin = len(MARK) if text.startswith(MARK) else 0
    rows: list[tuple[int, object]] = []
    for found in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|\Z)", text[begin:]):
        line = found[1]
        if line.strip(b" "):
            rows.append((begin + found.start(), line if len(line) <= most else len(line)))
    return rows


def _rows(stretches: list[Stretch], most: int) -> list[tuple[int, object]]:
    """Place, and the line or the length that it is told to have; a line too long may be one of spaces alone."""
    found: list[tuple[int, object]] = []
    for batch in _batches(stretches, most):
        lines = batch.column("value").cast("binary").to_pylist()
        rows = batch.drop_columns(["value"]).to_pylist()
        for line, row in zip(lines, rows, strict=True):
            place = row["position"] - (3 << line_reader.PLACE_BITS)
            assert row["source"] == f"n:{place}"
            if row["reason"] is None:
                found.append((place, line))
            elif line.strip(b" "):
                found.append((place, int(re.search(r"a line of (\d+) bytes", row["detail"])[1])))
    return found


def _batches(stretches: list[Stretch], most: int) -> list:
    return list(read_lines(stretches, most))


@contextmanager
def _written(chance: Random, content: bytes, ending: bytes) -> Iterator[bytes]:
    with TemporaryDirectory() as place:
        path = os.path.join(os.fsencode(place), chance.choice(NAMES) + ending)
        Path(os.fsdecode(path)).write_bytes(content)
        yield path


@contextmanager
def _in_chunks_of(size: int) -> Iterator[None]:
    before, line_reader.CHUNK_BYTES = line_reader.CHUNK_BYTES, size
    try:
        yield
    finally:
        line_reader.CHUNK_BYTES = before
