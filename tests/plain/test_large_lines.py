"""Lines too large for the JVM to parse: the body is taken out, what cannot be used is cut."""

from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from txmq_lib.files.line_reader import MAX_RAW_BYTES, Stretch, read_lines
from txmq_lib.pipeline.land.files.large_lines import LARGE_BYTES, made_small

MIB = 1 << 20
BODY = bytes(range(251)) * 14_000  # 3.5 MB: its base64 is large


def rows(tmp_path: Path, *lines: bytes) -> list[dict]:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join(lines))
    return [
        row
        for batch in made_small(read_lines([Stretch(0, "n", bytes(path))], 64 * MIB))
        for row in batch.set_column(0, "value", batch["value"].cast("binary")).to_pylist()
    ]


def with_body(text: str, **fields: object) -> bytes:
    """A line with a body spelt so."""
    return json.dumps({"topic": "T", "bodyBase64": "HERE", **fields}).replace("HERE", text).encode()


SPELT = {
    "as it is": lambda text: text,
    "without its padding": lambda text: text.rstrip("="),
    "its padding escaped": lambda text: text.replace("=", "\\u003d"),
    "its strokes escaped": lambda text: text.replace("/", "\\/"),
    "in lines": lambda text: "\\r\\n".join(text[place : place + 76] for place in range(0, len(text), 76)),
    "spaces around it": lambda text: f" \\t{text} ",
}


@pytest.mark.parametrize("spelt", SPELT)
@pytest.mark.parametrize("length", [len(BODY), len(BODY) - 1, len(BODY) - 2])
def test_a_large_body_is_taken_out_of_its_line_however_it_is_spelt(tmp_path: Path, spelt: str, length: int):
    text = SPELT[spelt](base64.b64encode(BODY[:length]).decode())
    [row] = rows(tmp_path, with_body(text, properties={"k": "v"}))
    assert row["long_body"] == BODY[:length]
    assert row["reason"] is None
    left = json.loads(row["value"])
    note = f"left out: {len(text)} bytes, SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    assert left == {"topic": "T", "properties": {"k": "v"}, "bodyBase64": note}


def test_a_body_that_is_no_base64_is_left_to_the_contract(tmp_path: Path):
    long = "A" * LARGE_BYTES
    for text in (long + "A", long + "=", long + "AA=", long + "=A", long + "-_AA", long + "\u00e9AAA", "=" + long):
        [row] = rows(tmp_path, with_body(text))
        assert (row["long_body"], row["reason"]) == (None, None), text[-9:]
        assert json.loads(row["value"])["bodyBase64"].startswith("left out: ")


def test_a_line_that_is_not_large_stays_as_it_came(tmp_path: Path):
    short = with_body("A" * (LARGE_BYTES - 100))
    [first, second] = rows(tmp_path, short, b"{" * LARGE_BYTES)
    assert (first["value"], first["long_body"], first["reason"]) == (short, None, None)
    assert (second["value"], second["reason"]) == (b"{" * LARGE_BYTES, None)


LONG = "A" * 2 * LARGE_BYTES
UNUSABLE = {
    "no object": (b"0" + b"{" * 2 * LARGE_BYTES, "BROKEN_JSON"),
    "braces alone": (b"{" * 2 * LARGE_BYTES, "BROKEN_JSON"),
    "an array of it": (b"[" + with_body(LONG) + b"]", "BROKEN_JSON"),
    "torn behind its body": (with_body(LONG)[:-1], "BROKEN_JSON"),
    "torn in its body": (with_body(LONG)[:-100], "LINE_TOO_LONG"),
    "two that lost the line end between them": (with_body("AAAA") + with_body(LONG), "BROKEN_JSON"),
    "no UTF-8 beside its body": (with_body(LONG, group="G").replace(b"G", b"\xff"), "BROKEN_JSON"),
    "an escape that is none in its body": (with_body(LONG + "\\x"), "BROKEN_JSON"),
    "nested without end": (with_body(LONG).replace(b'"T"', b"[" * 200_000), "BROKEN_JSON"),
    "much beside its body": (with_body("AAAA", note="x" * 2 * LARGE_BYTES), "LINE_TOO_LONG"),
    "no body of its own": (json.dumps({"properties": {"bodyBase64": LONG}}).encode(), "LINE_TOO_LONG"),
    "a body within another field": (with_body("AAAA", properties={"bodyBase64": LONG}), "LINE_TOO_LONG"),
    "bodies without number": (b'{"bodyBase64":"",' * 300_000, "LINE_TOO_LONG"),
}


@pytest.mark.parametrize("why", UNUSABLE)
def test_a_large_line_that_cannot_be_used_keeps_its_beginning_length_and_hash(tmp_path: Path, why: str):
    line, reason = UNUSABLE[why]
    first, row, last = rows(tmp_path, b'{"n": 1}', line, b'{"n": 2}')
    assert (first["value"], last["value"]) == (b'{"n": 1}', b'{"n": 2}')
    assert (row["reason"], row["value"], row["long_body"]) == (reason, line[:MAX_RAW_BYTES], None)
    assert row["detail"].endswith(f" (a line of {len(line)} bytes, SHA-256 {hashlib.sha256(line).hexdigest()})")


def test_a_name_that_ends_like_the_body_and_a_text_that_holds_it_are_not_the_body(tmp_path: Path):
    other = "B" * (LARGE_BYTES - 1000)
    within = json.dumps({"note": '"bodyBase64":"AAAA"', 'x"bodyBase64': other})[:-1].encode()
    [row] = rows(tmp_path, within + b", " + with_body(base64.b64encode(BODY[:200_000]).decode())[1:])
    assert row["long_body"] == BODY[:200_000]
    assert json.loads(row["value"])['x"bodyBase64'] == other


def test_hostile_spellings_take_memory_by_their_length_and_no_more(tmp_path: Path):
    for line in (b'{"bodyBase64":"' + b"\\n" * 4 * MIB, b'"bodyBase64":"",' * (MIB // 2), b'{"a":"' + b"\\" * 8 * MIB):
        tracemalloc.start()
        rows(tmp_path, line)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 * len(line)
