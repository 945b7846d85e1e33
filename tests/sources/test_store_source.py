"""The Spark data source `rocketmq_store`: its rows are those of the reader, in Spark's types, file by file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captured import as_stored, unpack_store
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from record_encoder import STORE_MS, blank, encode_record, encode_records, write_log
from truth import rows as capture_rows

from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store_source import RocketmqStore

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark_with_store(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(RocketmqStore)
    return spark


def read(spark: SparkSession, store: Path, **options: str) -> DataFrame:
    end = log_end(list_files(str(store)).files).offset
    all_options = {"from_offset": "0", "to_offset": str(end), **options}
    return spark.read.format("rocketmq_store").options(**all_options).load(str(store))


def test_columns_have_the_types_and_order_that_landing_relies_on(spark_with_store, tmp_path):
    frame = read(spark_with_store, write_log(tmp_path, [b""]))
    assert frame.schema.simpleString() == (
        "struct<topic:string,queue_id:int,queue_offset:bigint,commit_log_offset:bigint,sys_flag:int,flag:int,"
        "born_timestamp:timestamp,store_timestamp:timestamp,born_host:string,store_host:string,offset_msg_id:string,"
        "reconsume_times:int,prepared_transaction_offset:bigint,properties:map<string,string>,body:binary,"
        "reason:string,raw:binary,position:bigint>"
    )
    assert frame.collect() == []


def test_the_store_of_a_capture_equals_what_a_client_read_from_its_broker(spark_with_store, tmp_path):
    topics = json.dumps(["RMQ_SYS_TRANS_*", "TRANS_CHECK_MAX_TIME_TOPIC"])
    frame = read(spark_with_store, unpack_store("basic", tmp_path), topics=topics)
    in_micros = [F.unix_micros(name).alias(name) for name in ("born_timestamp", "store_timestamp")]
    others = [name for name in frame.columns if not name.endswith("_timestamp")]
    found = {row["position"]: row.asDict() for row in frame.select(*others, *in_micros).collect()}
    expected = [as_stored(row) for kind in ("half", "op", "max_time") for row in capture_rows("basic", kind)]
    assert len(found) == len(expected)
    for row in expected:
        times = {name: round(row[name].timestamp() * 1000) * 1000 for name in ("born_timestamp", "store_timestamp")}
        assert found[row["position"]] == row | times


def test_each_mapped_file_is_a_task_and_damage_is_rows(spark_with_store, tmp_path):
    torn = encode_records(4096, 3)
    contents = [encode_records(0, 3) + blank(354), torn[:130] + bytes(100) + torn[230:], b""]
    frame = read(spark_with_store, write_log(tmp_path, contents))
    assert frame.rdd.getNumPartitions() == 2
    rows = frame.select("position", "reason", "queue_offset", F.length("raw").alias("raw"), "properties").collect()
    assert sorted((row.position, row.reason, row.queue_offset, row.raw, row.properties) for row in rows) == [
        (0, None, 0, None, {"KEYS": "k1", "TAGS": "t1"}),
        (118, None, 1, None, {"KEYS": "k1", "TAGS": "t1"}),
        (236, None, 2, None, {"KEYS": "k1", "TAGS": "t1"}),
        (4096, None, 0, None, {"KEYS": "k1", "TAGS": "t1"}),
        (4214, "RECORD_TORN", None, 118, None),
        (4332, None, 2, None, {"KEYS": "k1", "TAGS": "t1"}),
    ]


def test_the_range_given_is_the_range_read_though_the_store_has_grown(spark_with_store, tmp_path):
    log = encode_records(0, 4)
    store = write_log(tmp_path, [log])
    frame = read(spark_with_store, store, from_offset="118", to_offset="354")
    before = sorted(row.position for row in frame.collect())
    write_log(store, [log + encode_record(len(log), store_ms=STORE_MS + 1)])
    assert before == sorted(row.position for row in frame.collect()) == [118, 236]
