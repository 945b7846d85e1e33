"""Landing files as Spark reads them: every record with a place of its own, whatever its file is called."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from txmq_lib.errors import NothingToLandError, UsageError
from txmq_lib.sources.landing_files import json_lines, list_files

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
