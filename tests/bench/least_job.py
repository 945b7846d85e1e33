"""The least a spark-submit can do with Delta: read a table, append its newest rows to another."""

from __future__ import annotations

import sys
from pathlib import Path

from txmq_lib.config.settings import Settings
from txmq_lib.spark.session import build_session


def main(warehouse: str) -> None:
    """Append a thousand ends of `warehouse` to a table beside it."""
    spark = build_session("least", Settings.load(warehouse=warehouse))
    rows = spark.read.format("delta").load(f"{warehouse}/end_transaction").orderBy("landing_order").limit(1000)
    rows.write.format("delta").mode("append").save(str(Path(warehouse).with_name("least")))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[2])
