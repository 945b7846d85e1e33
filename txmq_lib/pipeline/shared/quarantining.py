"""Bad records into quarantine, once each, counted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.passes.current import Pass
from txmq_lib.rules.quarantine import not_yet_quarantined, quarantine_rows


def append_quarantine(current: Pass, bad: DataFrame, *, broker_name: str | None, kind: str) -> int:
    """Append rows (reason, detail, raw, source, and broker_name where none is given) that are not in quarantine yet."""
    rows = quarantine_rows(
        bad,
        broker_name=F.col("broker_name") if broker_name is None else F.lit(broker_name),
        kind=kind,
        raw=F.col("raw"),
        job=current.job,
        pass_number=current.number,
        now=current.now,
    )
    return current.append(
        "quarantine", not_yet_quarantined(rows, current.read("quarantine")), step=f"quarantine_{kind}"
    )
