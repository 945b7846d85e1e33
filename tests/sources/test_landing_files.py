"""Landing files as Spark reads them: every record with a place of its own, whatever its file is called."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import functions as F

from txmq_lib.errors import NothingToLandError, UsageError
from txmq_lib.pipeline.land.files.lines_source import grouped
from txmq_lib.pipeline.land.files.listing import list_files
from txmq_lib.pipeline.land.files.reading import json_lines, materialized_lines

BODY = 1 << 20
ODD_NAMES = ("a b", "c%20d", "é#x?", "plus+", "{x}[1]*", "back\\slash")


def test_records_of_several_files_have_places_that_ascend_file_by_file(spark, tmp_path: Path):
    paths = [tmp_path / "second.jsonl", tmp_path / "first.jsonl.gz", tmp_path / "third.parquet"]
    paths[0].write_text('{"n": 0}\n\n{"n": 1}\n', encoding="utf-8")
    with gzip.open(paths[1], "wt", encoding="utf-8") as lines:
        lines.writelines(f'{{"n": {n}}}\n' for n in range(2, 50))
    spark.range(50, 53).selectExpr("id as n").coalesce(1).write.parquet(str(paths[2]))
    rows = json_lines(spark, list_files(spark, [str(path) for path in paths])).orderBy("position").collect()
    assert [int(row["value"].strip("}").rpartition(":")[2]) for row in rows] == list(range(53))
    assert len({row["position"] for row in rows}) == 53
    assert len({row["source"] for row in rows}) == 53


def test_a_file_is_read_whatever_its_name_alone_or_with_its_directory(spark, tmp_path: Path):
    paths = [tmp_path / f"{name}.jsonl" for name in ODD_NAMES]
    for number, path in enumerate(paths):
        path.write_text(f'{{"n": {number}}}\n', encoding="utf-8")
    one_by_one = list_files(spark, [str(path) for path in paths])
    assert sorted(one_by_one, key=lambda file: file.uri) == list_files(spark, [str(tmp_path)])
    rows = json_lines(spark, one_by_one).orderBy("position").collect()
    assert [row["value"] for row in rows] == [f'{{"n": {number}}}' for number in range(len(paths))]


def test_a_file_named_twice_is_read_once_and_a_brokers_table_only_where_it_is_asked_for(spark, tmp_path: Path):
    file, table = tmp_path / "a.jsonl", tmp_path / "consumerOffset.json"
    file.write_text("{}\n", encoding="utf-8")
    table.write_text("{}", encoding="utf-8")
    assert len(list_files(spark, [str(file), str(tmp_path), f"{tmp_path}/*.jsonl"])) == 1
    with pytest.raises(NothingToLandError, match=r"consumerOffset\.json"):
        list_files(spark, [str(file), str(table)])
    assert len(list_files(spark, [str(file), str(table)], takes_broker_files=True)) == 2


def test_a_pattern_names_the_files_it_fits(spark, tmp_path: Path):
    for name in ("half-1.jsonl", "half-2.jsonl", "op-1.jsonl", "_half-3.jsonl", "half-4.txt"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    files = list_files(spark, [str(tmp_path / "half-*")])
    assert [Path(file.uri).name for file in files] == ["half-1.jsonl", "half-2.jsonl"]


def test_a_parquet_column_may_have_any_name(spark, tmp_path: Path):
    spark.sql("select 1 as `a``b`, 'x' as `c.d`").write.parquet(str(tmp_path / "odd.parquet"))
    [row] = json_lines(spark, list_files(spark, [str(tmp_path / "odd.parquet")])).collect()
    assert json.loads(row["value"]) == {"a`b": 1, "c.d": "x"}


def test_a_path_with_a_password_is_refused_and_not_repeated(spark):
    with pytest.raises(UsageError, match="must not carry a password") as raised:
        list_files(spark, ["s3a://id:hush@bucket/half.jsonl"])
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("others", ["told boolean", "told string"])
def test_parquet_files_landed_together_say_what_each_says_alone(spark, tmp_path: Path, others):
    rows = {
        "1": spark.range(1),
        "2": spark.createDataFrame([(7, True)], "id long, told boolean"),
        "3": spark.createDataFrame([(8, None)], f"id long, {others}"),
    }
    for name, frame in rows.items():
        frame.coalesce(1).write.parquet(str(tmp_path / name))
    files = list_files(spark, [str(tmp_path / name) for name in rows])
    values = [json.loads(row["value"]) for row in json_lines(spark, files).orderBy("position").collect()]
    assert values == [{"id": 0}, {"id": 7, "told": True}, {"id": 8}]


def values_of(spark, files, materialized=None):
    rows = json_lines(spark, files, BODY, materialized).orderBy("position").collect()
    return [(row["value"], row["fault"]["reason"] if row["fault"] else None) for row in rows]


@pytest.mark.parametrize("is_few", [True, False])
def test_a_line_that_is_too_long_or_a_file_that_breaks_costs_only_itself(spark, tmp_path: Path, is_few):
    torn = gzip.compress(b'{"n": 3}\n' * 20_000)[:-30]
    contents = {
        "a.jsonl": b'{"n": 0}\n{"n": "' + b"x" * 3_000_000 + b'"}\n{"n": 1}',
        "b.jsonl.gz": gzip.compress(b'{"n": 2}\n' + bytes(100_000_000) + b"\n{}\n", 1),
        "c.jsonl.gz": torn,
        "d.parquet": b"no parquet",
        "e.jsonl.gz": b"no gzip",
        "f.jsonl": b'\xef\xbb\xbf{"n": 4}\r\n \r{"n": "\xff"}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = list_files(spark, [str(tmp_path)])
    materialized = materialized_lines(files, BODY) if is_few else None
    rows = (
        json_lines(spark, files, BODY, materialized)
        .orderBy("position")
        .withColumn("value", F.col("value").cast("binary"))
    )
    found = [(row["source"].rpartition("/")[2], bytes(row["value"])[:9], row["fault"]) for row in rows.collect()]
    good = [(source, value) for source, value, fault in found if fault is None and not source.startswith("c.")]
    assert good == [
        ("a.jsonl:0", b'{"n": 0}'),
        ("a.jsonl:3000019", b'{"n": 1}'),
        ("b.jsonl.gz:0", b'{"n": 2}'),
        ("b.jsonl.gz:100000010", b"{}"),
        ("f.jsonl:3", b'{"n": 4}'),
        ("f.jsonl:15", b'{"n": "\xff"'),
    ]
    faults = [(source, fault["reason"]) for source, _, fault in found if fault is not None]
    [torn_at] = [source for source, _ in faults if source.startswith("c.")]
    assert faults == [
        ("a.jsonl:9", "LINE_TOO_LONG"),
        ("b.jsonl.gz:9", "LINE_TOO_LONG"),
        (torn_at, "FILE_BROKEN"),
        ("d.parquet:0", "FILE_BROKEN"),
        ("e.jsonl.gz:0", "FILE_BROKEN"),
    ]
    details = {source: fault["detail"] for source, _, fault in found if fault is not None}
    assert details["a.jsonl:9"].endswith("a line of 3000009 bytes; at most 1835008 are read")
    assert all(str(tmp_path) in detail for detail in details.values())


def test_a_parquet_file_with_a_damaged_page_costs_only_itself(spark, tmp_path: Path):
    table = pyarrow.table({"n": range(20_000), "text": [f"text {number}" for number in range(20_000)]})
    for name in ("a", "b", "c"):
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=5_000, compression="snappy")
    spoilt = pyarrow.parquet.read_metadata(tmp_path / "b.parquet").row_group(2).column(1)
    with (tmp_path / "b.parquet").open("r+b") as file:
        file.seek(spoilt.data_page_offset + spoilt.total_compressed_size // 2)
        file.write(bytes(64))
    rows = json_lines(spark, list_files(spark, [str(tmp_path)])).collect()
    assert [row["source"].rpartition("/")[2] for row in rows if row["fault"]] == ["b.parquet:0"]
    assert [row["fault"]["reason"] for row in rows if row["fault"]] == ["FILE_BROKEN"]
    assert len(rows) == 2 * 20_000 + 1


BYTE_NAMES = (b"a:b", b"\xff\xfe", b"12:30", b"\xc3\xa9", b"line\nend")


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_a_name_with_a_colon_or_that_is_no_text_is_read_alone_in_its_directory_and_by_a_pattern(
    spark, tmp_path: Path, ending
):
    for number, name in enumerate(BYTE_NAMES):
        path = os.fsencode(tmp_path) + b"/" + name + ending.encode()
        with gzip.open(path, "wb") if ending.endswith("gz") else open(path, "wb") as file:
            file.write(b'{"n": %d}\n' % number)
    expected = sorted((f'{{"n": {number}}}', None) for number in range(len(BYTE_NAMES)))
    listed = list_files(spark, [str(tmp_path)])
    assert sorted(values_of(spark, listed)) == expected
    assert list_files(spark, [f"{tmp_path}/*{ending}"]) == listed
    one_by_one = [os.fsdecode(os.path.join(os.fsencode(tmp_path), name + ending.encode())) for name in BYTE_NAMES]
    assert sorted(list_files(spark, one_by_one), key=lambda file: file.uri) == listed
    assert json.loads(json.dumps([file.uri for file in listed])) == [file.uri for file in listed]
    assert "".join(file.uri for file in listed).encode("utf-8")


def test_a_parquet_file_whose_name_java_or_hadoop_cannot_open_is_told_of_and_the_others_land(spark, tmp_path: Path):
    for name in (b"a:b", b"\xff", "x [1]é#%20".encode()):
        pyarrow.parquet.write_table(pyarrow.table({"n": [1]}), tmp_path / "plain")
        os.rename(tmp_path / "plain", os.fsencode(tmp_path) + b"/" + name + b".parquet")
    assert values_of(spark, list_files(spark, [str(tmp_path)])) == [
        ("", "FILE_BROKEN"),
        ("", "FILE_BROKEN"),
        ('{"n":1}', None),
    ]


def test_patterns_are_those_of_hadoop(spark, tmp_path: Path):
    for name in ("a1", "b1", "c1", "a{x}"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n", encoding="utf-8")

    def names(pattern: str) -> list[str]:
        return [Path(file.uri).stem for file in list_files(spark, [f"{tmp_path}/{pattern}"])]

    assert names("{a,b}1.jsonl") == ["a1", "b1"]
    assert names("{a,{b,c}}?.jsonl") == ["a1", "b1", "c1"]
    assert names("[^ab]1.jsonl") == ["c1"]
    assert names(r"a\{x\}*") == ["a%7Bx%7D"]


def test_thousands_of_files_are_few_tasks_and_a_large_one_several(tmp_path: Path):
    groups = list(grouped([(number, f"file:/d/{number}.jsonl", 500) for number in range(10_000)]))
    assert len(groups) <= 25
    assert [stretch.number for group in groups for stretch in group] == list(range(10_000))
    [*parts] = [stretch for group in grouped([(0, "file:/d/large.jsonl", 1 << 30)]) for stretch in group]
    assert [(part.start, part.stop) for part in parts] == [(at << 25, at + 1 << 25) for at in range(32)]
    assert len(list(grouped([(0, "file:/d/large.jsonl.gz", 1 << 30)]))) == 1
