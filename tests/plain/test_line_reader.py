"""Lines of text files in bounded memory; tests/fuzz/text_files.py tries any bytes."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from txmq_lib.files.line_reader import MAX_RAW_BYTES, Stretch, read_lines

MIB = 1 << 20


def rows(path: Path, most: int = MIB, start: int = 0, stop: int | None = None) -> list[dict]:
    stretch = Stretch(0, "n", os.fsencode(path), start, stop)
    return [row for batch in read_lines([stretch], most) for row in batch.to_pylist()]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_line_as_long_as_it_likes_takes_no_more_memory_than_one_that_may_be(tmp_path: Path, ending: str):
    path = tmp_path / f"long.{ending}"
    with gzip.open(path, "wb", 1) if ending.endswith("gz") else path.open("wb") as lines:
        lines.write(b"first\n")
        for _ in range(200):
            lines.write(b"x" * MIB)
        lines.write(b"\r\nlast")
    tracemalloc.start()
    first, long, last = rows(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * MIB
    assert (first["value"], last["value"], last["source"]) == ("first", "last", f"n:{200 * MIB + 8}")
    assert (long["reason"], long["source"], long["value"]) == ("LINE_TOO_LONG", "n:6", "x" * MAX_RAW_BYTES)
    assert long["detail"] == f"n:6: a line of {200 * MIB} bytes; at most {MIB} are read"


def test_a_line_is_read_once_whichever_stretch_it_begins_in(tmp_path: Path):
    path = tmp_path / "lines.jsonl"
    lines = [f"{number:04d}" + "y" * (number % 7) for number in range(1000)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    size = path.stat().st_size
    for cut in range(400, 440):
        assert [row["value"] for row in [*rows(path, stop=cut), *rows(path, start=cut, stop=size)]] == lines


def test_what_cannot_be_opened_or_is_no_plain_file_is_a_row_and_nobody_waits_for_it(tmp_path: Path):
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "endless.jsonl.gz").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.jsonl")
    names = ("gone.jsonl", ".", "link.jsonl", "endless.jsonl.gz", "pipe.jsonl")
    found = {name: [(row["reason"], row["source"], row["value"]) for row in rows(tmp_path / name)] for name in names}
    assert found == {name: [("FILE_UNREADABLE", "n:0", "")] for name in names}
