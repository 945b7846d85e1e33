"""Writes of a pass by Spark: of any size, wherever Delta can write. small_writes.py has them for a few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter

from txmq_lib.config.table_specs import TableSpec
from txmq_lib.delta.conform import struct_type
from txmq_lib.spark.session_conf import session_conf

APP_ID_CONF = "spark.databricks.delta.write.txnAppId"
NUMBER_CONF = "spark.databricks.delta.write.txnVersion"
TAG_CONF = "spark.databricks.delta.commitInfo.userMetadata"


def create_by_spark(spark: SparkSession, path: str, spec: TableSpec, properties: Mapping[str, str]) -> None:
    """Create an empty table, unless it is there already."""
    builder = DeltaTable.createIfNotExists(spark).location(path).comment(spec.doc).addColumns(struct_type(spec))
    if spec.partition_by:
        builder = builder.partitionedBy(*spec.partition_by)
    for key, value in properties.items():
        builder = builder.property(key, value)
    builder.execute()


@dataclass(frozen=True)
class SparkWrite:
    """What the commit of one write carries: whose step it is, the number of its pass, and its tag."""

    app_id: str
    number: int
    tag: str

    def append(self, path: str, rows: DataFrame) -> None:
        """Append rows, once."""
        self._writer(rows, "append").save(path)

    def overwrite(self, path: str, rows: DataFrame, *, where: str | None) -> None:
        """Put rows in the place of all there are (of those that satisfy `where`), once."""
        writer = self._writer(rows, "overwrite")
        (writer if where is None else writer.option("replaceWhere", where)).save(path)

    def upsert(
        self, path: str, rows: DataFrame, *, key: Sequence[str], only_if: str | None, within: Column | None = None
    ) -> None:
        """MERGE rows (s) into the table (t) on its key, once; `only_if` lets a match be updated.

        within  true for all rows of t that can match: Delta looks for them in files that may have such
        """
        on = F.expr(" and ".join(f"t.{name} <=> s.{name}" for name in key))
        on = on if within is None else on & within
        merge = DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("s"), on)
        with session_conf(rows.sparkSession, self._conf()):
            merge.whenMatchedUpdateAll(only_if).whenNotMatchedInsertAll().execute()

    def delete(self, spark: SparkSession, path: str, which: Column) -> None:
        """Delete rows, once."""
        with session_conf(spark, self._conf()):
            DeltaTable.forPath(spark, path).delete(which)

    def _writer(self, rows: DataFrame, mode: str) -> DataFrameWriter:
        return (
            rows.write.format("delta")
            .mode(mode)
            .options(txnAppId=self.app_id, txnVersion=self.number, userMetadata=self.tag)
        )

    def _conf(self) -> dict[str, str]:
        # MERGE and DELETE take them from the session only; left behind they would silence other writes.
        return {APP_ID_CONF: self.app_id, NUMBER_CONF: str(self.number), TAG_CONF: self.tag}
