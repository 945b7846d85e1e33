"""The rules on frames of one's own: a store read in one line, and frames with the columns that they need alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import truth
from builders import rows
from captured import unpack_store
from moment import NOW
from pyspark.sql import SparkSession

import txmq_lib as txmq
from txmq_lib.api.own_frames import NEEDED
from txmq_lib.errors import UsageError

pytestmark = pytest.mark.spark
PAGE = (Path(__file__).parents[2] / "docs" / "pages" / "python.md").read_text(encoding="utf-8")
LIMITS = txmq.Limits(
    role="audit", transaction_timeout_ms=6_000, transaction_check_interval_ms=30_000, transaction_check_max=15,
    file_reserved_time_ms=259_200_000,
)  # fmt: skip


def transaction(row) -> truth.Transaction:
    return truth.Transaction(row["transaction_id"], int(row["born_timestamp"].timestamp() * 1000 + 0.5))


def test_the_lines_of_the_page_give_a_whole_store_the_verdicts_that_its_rows_prove(spark: SparkSession, tmp_path):
    example = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "records_of" in block)
    names = {"spark": spark, "txmq": txmq}
    exec(example.replace("/data/rocketmq/store", str(unpack_store("basic", tmp_path))), names)
    found = {transaction(row): row["verdict"] for row in names["verdicts"].collect()}
    known = {key: one.verdict for key, one in truth.verdicts(truth.facts("basic")).items()}
    assert {key: one for key, one in found.items() if one != "DIVERTED"} == known
    assert {transaction(row) for row in names["undecided"].collect()} == truth.pending(truth.facts("basic"))
    assert "pass_number" not in names["verdicts"].columns


def test_frames_need_no_more_than_the_columns_that_are_named(spark: SparkSession):
    """An op that names a half proves a rollback where its real queue was read past the op, and nothing else does."""
    run = {"first_offset": 0, "end_offset": 9, "first_commit_log_offset": 0, "last_commit_log_offset": 999,
           "read_to": None}  # fmt: skip
    cells = {
        "halves": [
            {"transaction_id": name, "queue_offset": place, "commit_log_offset": place, "real_topic": topic}
            for name, place, topic in (("open", 1, "TopicA"), ("seen", 2, "TopicA"), ("back", 3, "TopicA"),
                                       ("else", 4, "TopicB"), ("lost", 5, "TopicA"))
        ],
        "ops": [{"half_queue_offset": place, "commit_log_offset": 100 + place} for place in (2, 3, 4)],
        "messages": [{"transaction_id": "seen", "prepared_transaction_offset": 2, "commit_log_offset": 90}],
        "given_up": [{"transaction_id": "lost", "queue_offset": 0, "commit_log_offset": 50}],
        "read": [{"topic": "TopicA", "runs": [run]}],
    }  # fmt: skip
    frames = {name: rows(spark, table, cells[name]).select(*needed) for name, (table, needed) in NEEDED.items()}
    records = txmq.Records(**frames)
    found = {
        row["transaction_id"]: row["verdict"] for row in txmq.verdicts_of(records, limits=LIMITS, now=NOW).collect()
    }
    assert found == {
        "open": "PENDING", "seen": "COMMITTED", "back": "ROLLED_BACK", "else": "RESOLVED_UNKNOWN", "lost": "DISCARDED",
    }  # fmt: skip
    assert [row["transaction_id"] for row in txmq.pending_of(records).collect()] == ["open"]
    with pytest.raises(UsageError, match=r"ops lacks half_queue_offset; schemas/op_message\.yaml says what they are"):
        txmq.Records(**{**frames, "ops": frames["ops"].drop("half_queue_offset")})
    with pytest.raises(UsageError, match="stored messages lack topic, "):
        txmq.records_of(frames["ops"], broker="b")


def test_a_message_that_cannot_be_read_proves_nothing(spark: SparkSession, tmp_path):
    """A bad record leaves a hole in its queue: behind it nobody knows that a rollback was one."""
    txmq.register(spark)
    log = spark.read.format("rocketmq_store").load(str(unpack_store("basic", tmp_path)))
    is_real = "topic not like 'RMQ_SYS%' and topic <> 'TRANS_CHECK_MAX_TIME_TOPIC'"
    bad = log.selectExpr("* except (reason)", f"case when {is_real} and queue_offset % 2 = 0 then 'BAD' end as reason")
    judged = txmq.verdicts_of(txmq.records_of(bad, "b", log_is_whole=True), limits=LIMITS, now=NOW).collect()
    found = {transaction(row): row["verdict"] for row in judged}
    rolled_back = {key for key, one in found.items() if one == "ROLLED_BACK"}
    truly = {key for key, one in truth.verdicts(truth.facts("basic")).items() if one.verdict == "ROLLED_BACK"}
    assert rolled_back < truly
    assert {found[key] for key in truly - rolled_back} == {"RESOLVED_UNKNOWN"}


def test_the_page_names_every_column_that_is_needed():
    section = PAGE.partition("## The rules on frames of your own")[2].partition("\n## ")[0]
    for name, (table, needed) in NEEDED.items():
        (line,) = [line for line in section.splitlines() if line.startswith(f"| `{name}` ")]
        assert set(re.findall(r"`(\w+)`", line)) == {name, table, *needed}
