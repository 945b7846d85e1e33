"""Names of landing files: to a URI and back whatever bytes they have, and found by patterns as Hadoop's are."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txmq_lib.files.local_files import found, has_scheme, path_of, uri_of
from txmq_lib.files.materialized import at_most

SCHEMA = pa.schema([("n", pa.int64())])


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=60).filter(lambda name: b"\0" not in name))
def test_a_uri_is_text_and_leads_back_to_the_path_whatever_its_bytes(name):
    path = b"/d/" + name
    uri = uri_of(os.fsdecode(path))
    assert uri.encode("utf-8")
    assert path_of(uri) == path


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (b"/a b/c%20", "file:/a%20b/c%2520"),
        (b"/12:30@x", "file:/12:30@x"),
        (b"/\xc3\xa9\xff", "file:/\u00e9%FF"),
        (b"/[x]{y}\\?#", "file:/%5Bx%5D%7By%7D%5C%3F%23"),
    ],
)
def test_a_uri_is_the_one_that_java_writes(path, uri):
    assert uri_of(os.fsdecode(path)) == uri


def test_what_names_another_file_system():
    assert [has_scheme(path) for path in ("s3a://b/x", "hdfs:/x", "file:/x", "/a:b/c", "a:b", "./a:b.jsonl")] == [
        *(True, True, False, False, False, False)
    ]


def test_a_name_that_looks_like_a_pattern_is_itself_first(tmp_path: Path):
    for name in ("{a,b}", "a", "b", ".hidden"):
        (tmp_path / name).touch()
    names = {
        pattern: [Path(each).name for each in found(f"{tmp_path}/{pattern}")] for pattern in ("{a,b}", r"\{a,b\}", "*")
    }
    assert names == {"{a,b}": ["{a,b}"], r"\{a,b\}": ["{a,b}"], "*": [".hidden", "a", "b", "{a,b}"]}


def test_what_is_more_than_may_be_held_is_not_read_to_its_end():
    pieces = []

    def batches():
        for number in range(10):
            pieces.append(number)
            yield pa.RecordBatch.from_pydict({"n": list(range(100))}, schema=SCHEMA)

    assert at_most(batches(), SCHEMA, 2000) is None
    assert pieces == [0, 1, 2]
    assert at_most(batches(), SCHEMA, 8000).num_rows == 1000
