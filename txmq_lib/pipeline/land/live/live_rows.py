"""Messages of live brokers as rows, pulled by Spark's reader or by tasks: those of all brokers in one frame."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.files.materialized import PROPERTY_BYTES
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live.by_broker import is_among
from txmq_lib.pipeline.land.live.live_reports import Plan
from txmq_lib.pipeline.land.live.queue_pulling import ranges_of
from txmq_lib.rocketmq.live_source import SOURCE_NAME, Rocketmq
from txmq_lib.rules.half import content_hash


def bytes_held(stored: DataFrame) -> int:
    """How much bodies (or what stands for them where a record is bad) and properties hold, as bytes_in_spark says."""
    names, values = F.map_keys("properties"), F.map_values("properties")
    texts = [F.octet_length(F.array_join(part, "")) for part in (names, values)]
    body = F.coalesce(F.octet_length("body"), F.octet_length("raw"))
    parts = (body, *texts, PROPERTY_BYTES * F.when(names.isNotNull(), F.size(names)))
    held = stored.agg(F.sum(sum((F.coalesce(part, F.lit(0)) for part in parts), F.lit(0)))).collect()[0][0]
    return int(held or 0)


def source(current: Pass, plan: Plan) -> DataFrame:
    """What the live source reads of a broker."""
    ours = current.settings.rocketmq
    spark = current.warehouse.spark
    spark.dataSource.register(Rocketmq)
    options: dict[str, Any] = {
        "address": plan["address"],
        "ranges": json.dumps(ranges_of(plan)),
        "group": ours.consumer_group,
        "timeout": ours.timeout_ms / 1000,
        "tls": ours.tls,
        "checks_host_name": ours.checks_host_name,
        "access_key_env": ours.access_key_env,
        "secret_key_env": ours.secret_key_env,
        "ca_file": ours.ca_file,
        "max_body_bytes": current.settings.land.max_body_bytes,
    }
    present = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(SOURCE_NAME).options(**present).load()


def described(plans: Sequence[Plan], records: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of the live source, by broker, as messages.land_every_kind takes them: those of all brokers."""
    is_placed = F.col("position") >= 0
    place = F.concat(F.lit("at physical offset "), F.col("position"))
    described = [
        records[plan["broker_name"]].withColumns(
            {
                "broker_name": F.lit(plan["broker_name"]),
                "detail": F.when(F.col("reason").isNotNull() & is_placed, place),
                "raw": F.base64("raw"),
                "source": F.concat_ws(
                    ":", F.lit(f"{ROCKETMQ}:{plan['address']}"), F.when(is_placed, F.col("position").cast("string"))
                ),
            }
        )
        for plan in plans
        if plan["broker_name"] in records
    ]
    return reduce(DataFrame.unionByName, described).withColumn("content_hash", content_hash())


def readable(rows: DataFrame, held_back: Mapping[str, Collection[str]]) -> DataFrame:
    """The rows that may land: no half where its op may be among what could not be read of its broker."""
    return rows.where(~is_among(held_back))
