"""Landing: JSON lines against plain Spark, and a store directory decoded, landed by one core and two, and passed over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.bench.bench import Bench
from tests.bench.data import BROKER, NOW, Stream, halves
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure, middle
from tests.bench.store_log import decoded_in_plain_python, write_store
from tests.bench.warehouses import opened, timed, wall_clock
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.pipeline.land.job import run_land_files, run_land_store
from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store_source import read_range
from txmq_lib.rules.landing_contract import MESSAGE_FIELDS

SIZES = {
    "small": {"lines": 30_000, "rounds": 7, "records": 45_000},
    "full": {"lines": 1_000_000, "rounds": 4, "records": 435_000},
}

STORE_ROUNDS = 5


def run(bench: Bench) -> list[Figure]:
    """Lines against plain Spark; a store decoded, passed over and landed against plain Python; in a full run on two cores."""
    size, store = SIZES[bench.size], bench.scratch / "store"
    records = size["records"]
    lines = bench.call(
        "lines", land_lines, is_warm=True, path=bench.warehouse("lines"), count=size["lines"], rounds=size["rounds"]
    ).result
    # One mapped file, as that of a broker: two cores have to share it.
    write_store(store, records, file_bytes=1 << 30)
    alone = bench.call("decoded", decode, store=store, records=records).result
    seconds = {
        "store into Arrow, plain Python into tuples": (alone["arrow"], alone["plain"]),
        "records nobody asked for, into Arrow": (alone["unwanted"], alone["arrow"]),
    }
    one = bench.call("store", land_store, store=store, path=bench.warehouse("w"), records=records, cores=1).result
    seconds["store landed on one core, plain Python into tuples"] = (one["whole"], one["plain"])
    if bench.size == "full":
        two = bench.call(
            "store-2", land_store, store=store, path=bench.warehouse("w2"), records=records, cores=2
        ).result
        seconds["store landed on two cores, on one"] = (two["whole"], one["whole"])
    return [
        Figure("landing", "JSON lines, plain Spark", lines["land"], lines["plain"], rate=size["lines"] / lines["land"]),
        *[Figure("landing", name, ours, theirs, rate=records / ours) for name, (ours, theirs) in seconds.items()],
    ]


def land_lines(path: str, count: int, rounds: int) -> dict[str, Any]:
    """Median seconds of landing `count` halves and of copying the same file; rounds but the first."""
    warehouse, settings = opened(path)
    spark = warehouse.spark
    landings, copies, steps = [], [], {}
    for number in range(rounds):
        files = Path(path).with_name(f"lines-{number}")
        write_lines(spark, number * count, count, files, files=2)
        begun = time.monotonic()
        report = run_land_files(
            warehouse, settings, kind="half", paths=[str(files)], broker_name=BROKER, now=NOW, wall_clock=wall_clock
        )
        landings.append(time.monotonic() - begun)
        steps = {step: round(each, 2) for step, each in report.seconds.items()}
        copy = str(Path(path).with_name(f"copy-{number}"))
        begun = time.monotonic()
        _plain_copy(spark, files, copy)
        copies.append(time.monotonic() - begun)
        here = F.col("landed_pass") == report.number
        _must_agree(warehouse.read("half_message").where(here), spark.read.format("delta").load(copy), count)
    return {"land": middle(landings[1:]), "plain": middle(copies[1:]), "steps": steps}


def decode(store: str, records: int) -> dict[str, float]:
    """Seconds to decode the whole log into Arrow, to pass over it all, and to unpack it into tuples; one core."""
    files = list_files(store).files
    end = log_end(files, 0).offset
    steps: dict[str, float] = {}

    def rows_of(topics: list[str] | None) -> int:
        return sum(
            len(batch)
            for file in files
            for batch in read_range(file, file.base_offset, min(file.end_offset, end), topics)
        )

    with timed(steps, "arrow"):
        rows = rows_of(None)
    with timed(steps, "unwanted"):
        unwanted = rows_of(["nobody's"])
    with timed(steps, "plain"):
        plain = decoded_in_plain_python(Path(store))
    if (rows, unwanted, plain) != (records, 0, records):
        raise ResultsDifferError(f"{records} records, read {rows} into Arrow, {unwanted} unwanted, {plain} into tuples")
    return steps


def land_store(store: str, path: str, records: int) -> dict[str, Any]:
    """Median seconds to land the whole store, and to unpack it into tuples; rounds but the first."""
    warehouse, settings = opened(path, "role=audit")
    landings, unpackings, steps = [], [], {}
    for number in range(STORE_ROUNDS):
        own = Warehouse(warehouse.spark, str(Path(path).with_name(f"{Path(path).name}-{number}")))
        own.ensure()
        begun = time.monotonic()
        report = run_land_store(own, settings, path=store, broker_name=BROKER, now=NOW, wall_clock=wall_clock)
        landings.append(time.monotonic() - begun)
        steps = {step: round(each, 2) for step, each in report.seconds.items()}
        if any(report.counts[kind] != records // 3 for kind in ("half", "op", "message")):
            raise ResultsDifferError(f"{records} records in the store, landed {report.counts}")
        begun = time.monotonic()
        decoded_in_plain_python(Path(store))
        unpackings.append(time.monotonic() - begun)
    return {"whole": middle(landings[1:]), "plain": middle(unpackings[1:]), "seconds": steps}


def write_lines(spark: SparkSession, first: int, count: int, place: Path, *, files: int) -> None:
    """`count` halves as files of JSON lines in the directory `place`."""
    _lines(spark, first, count, files).write.text(str(place))
    for file in place.glob("part-*.txt"):
        file.rename(file.with_suffix(".jsonl"))


def _lines(spark: SparkSession, first: int, count: int, files: int) -> DataFrame:
    rows = halves(spark, Stream(), first, count, files=files)
    named = {
        "queueId": "queue_id",
        "queueOffset": "queue_offset",
        "commitLogOffset": "commit_log_offset",
        "sysFlag": "sys_flag",
        "bornHost": "born_host",
        "storeHost": "store_host",
        "offsetMsgId": "offset_msg_id",
        "reconsumeTimes": "reconsume_times",
        "preparedTransactionOffset": "prepared_transaction_offset",
    }
    fields = [
        *("topic", "flag", "properties"),
        *[F.col(column).alias(name) for name, column in named.items()],
        F.unix_millis("born_timestamp").alias("bornTimestamp"),
        F.unix_millis("store_timestamp").alias("storeTimestamp"),
        F.base64("body").alias("bodyBase64"),
    ]
    return rows.select(F.to_json(F.struct(*fields)).alias("value"))


def _plain_copy(spark: SparkSession, files: Path, target: str) -> None:
    """What a notebook does: the reader's own schema, typed times, the body as bytes."""
    schema = ", ".join(f"{name} {kind}" for name, kind in MESSAGE_FIELDS.items())
    times = {name: F.timestamp_millis(name) for name in ("bornTimestamp", "storeTimestamp")}
    read = spark.read.schema(schema).json(str(files)).withColumns({**times, "body": F.unbase64("bodyBase64")})
    read.drop("bodyBase64").write.format("delta").save(target)


def _must_agree(landed: DataFrame, copied: DataFrame, count: int) -> None:
    def told(frame: DataFrame, offset: str) -> list[int]:
        return [int(each) for each in frame.agg(F.count("*"), F.sum(offset), F.sum(F.length("body"))).collect()[0]]

    ours, theirs = told(landed, "queue_offset"), told(copied, "queueOffset")
    if ours != theirs or ours[0] != count:
        raise ResultsDifferError(f"{count} lines: landed {ours}, copied {theirs}")
