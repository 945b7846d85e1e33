"""Spark's hash of a row without Spark: the same for every type, length, null and order of properties."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules.half import HASHED, content_hash
from txmq_lib.spark.row_hash import row_hash

pytestmark = pytest.mark.spark
ROWS = 2000


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    dice = random.Random(1)

    def text(most: int) -> str:
        return "".join(dice.choice("abc\u00e9\U0001f600\u0000zZ") for _ in range(dice.randrange(most)))

    def row(number: int) -> dict[str, object]:
        properties = {text(40): text(90) for _ in range(dice.randrange(9))}
        return {
            "topic": text(60),
            "queue_id": number,
            "queue_offset": number,
            "commit_log_offset": dice.randrange(-(2**63), 2**63),
            "sys_flag": dice.randrange(-(2**31), 2**31),
            "flag": -1,
            "born_timestamp": dice.randrange(2**47),
            "store_timestamp": dice.randrange(2**47),
            "born_host": dice.choice([None, text(30)]),
            "store_host": text(30),
            "offset_msg_id": text(33),
            "reconsume_times": dice.choice([None, 3]),
            "prepared_transaction_offset": 0,
            "properties": [(name, value) for name, value in properties.items() if name and value],
            "body": dice.randbytes(dice.choice([dice.randrange(400), dice.randrange(5000)])),
            "position": number,
        }

    return pa.RecordBatch.from_pylist([row(number) for number in range(ROWS)], ARROW_SCHEMA)


@pytest.mark.parametrize(("first", "count"), [(0, ROWS), (5, 700), (3, 1), (10, 0)])
def test_it_is_the_hash_that_spark_gives(spark: SparkSession, batch, first, count):
    part = batch.slice(first, count)
    frame = spark.createDataFrame(pa.Table.from_batches([part]), from_arrow_schema(ARROW_SCHEMA))
    expected = [row[0] for row in frame.select(content_hash()).collect()]
    assert row_hash([part[name] for name in (*HASHED, "properties")]).to_pylist() == expected
