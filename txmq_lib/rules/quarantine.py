"""Rows of the quarantine table: what could not be used, and why. Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# Where a record lies and whose it is, as far as its header could be read.
RECORD_PLACE = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "commit_log_offset": "bigint",
    "transaction_id": "string",
}


def quarantine_rows(
    bad: DataFrame, *, broker_name: Column, kind: str, raw: Column, job: str, pass_number: int, now: datetime
) -> DataFrame:
    """Rows of `quarantine` from rows with `reason`, `detail` and `source`; one per distinct fault of a record.

    Columns of RECORD_PLACE that `bad` has are kept.
    """
    named = bad.select(
        broker_name.alias("broker_name"),
        F.lit(kind).alias("kind"),
        "reason",
        "detail",
        raw.alias("raw"),
        "source",
        *[
            F.col(name) if name in bad.columns else F.lit(None).cast(of).alias(name)
            for name, of in RECORD_PLACE.items()
        ],
    )
    identity = [F.coalesce(F.col(name), F.lit("")) for name in ("broker_name", "kind", "reason", "detail", "raw")]
    return (
        named.withColumn("fingerprint", F.sha2(F.concat_ws("\u0001", *identity), 256))
        # A record that is bad twice over in one landing is one fault.
        .dropDuplicates(["fingerprint"])
        .withColumns(
            {
                "job": F.lit(job),
                "pass_number": F.lit(pass_number).cast("bigint"),
                "quarantined_timestamp": F.lit(now),
            }
        )
    )


def not_yet_quarantined(rows: DataFrame, quarantine: DataFrame) -> DataFrame:
    """`rows` whose fault is not in `quarantine` already."""
    return rows.join(quarantine.select("fingerprint"), on="fingerprint", how="left_anti")
