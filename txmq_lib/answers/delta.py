"""A transaction log in a Delta table, through Spark: file statistics and filters leave out what was not asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from txmq_lib.answers.protocol import QUERY_FAILED, Answer, Check, no_answer
from txmq_lib.answers.states import answers_of_rows, half_columns, looked_up
from txmq_lib.config.resolver_settings import DeltaResolver as DeltaSettings
from txmq_lib.config.secrets import scrubbed


class DeltaResolver:
    """Answers from the newest version of a Delta table."""

    def __init__(self, settings: DeltaSettings, spark: SparkSession, *, now: datetime) -> None:
        self.batch_size = settings.batch_size
        self.half_columns = half_columns(settings)
        self.down: Answer | None = None
        self._settings = settings
        self._spark = spark
        self._now = now

    def answers(self, checks: Sequence[Check]) -> list[Answer]:
        """One answer per check."""
        if self.down is not None:
            return [self.down] * len(checks)
        looked_for = (looked_up(check, self._settings) for check in checks)
        keys = list(dict.fromkeys(key for key in looked_for if not isinstance(key, Answer)))
        try:
            rows = self._rows(keys) if keys else []
        except (PySparkException, Py4JError) as error:
            self.down = no_answer(QUERY_FAILED, scrubbed(f"{self._settings.uri}: {error}"))
            return [self.down] * len(checks)
        return answers_of_rows(checks, rows, self._settings, now=self._now)

    def close(self) -> None:
        """Nothing to let go of."""

    def _rows(self, keys: Sequence[str | int]) -> list[tuple[object, object]]:
        key, state = F.col(self._settings.key_column), F.col(self._settings.state_column)
        log = self._spark.read.format("delta").load(self._settings.uri)
        rows_of_keys = log.where(key.isin([_literal(each) for each in keys]))
        found = rows_of_keys.select(key.cast("string").alias("k"), state.cast("string").alias("s"))
        return [(row["k"], row["s"]) for row in found.collect()]


def _literal(key: str | int) -> str | int | Decimal:
    # Spark takes no int beyond 64 bits; a column of decimals may hold one.
    return Decimal(key) if isinstance(key, int) and not -(2**63) <= key < 2**63 else key
