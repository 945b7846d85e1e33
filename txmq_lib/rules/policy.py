"""A broker's limits as columns: one value per broker, a default for the rest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Limits:
    """What the rules need to know of a broker's settings; spans in ms (R35, R44, R45, R48)."""

    role: str
    transaction_timeout_ms: int
    transaction_check_interval_ms: int
    transaction_check_max: int
    file_reserved_time_ms: int


@dataclass(frozen=True)
class Backoff:
    """Between the checks of a producer group: each interval is `factor` times the one before, up to `longest_ms`."""

    factor: float
    longest_ms: int


@dataclass(frozen=True)
class Policies:
    """Limits per broker name, with a default for brokers without their own; backoffs by producer group."""

    default: Limits
    brokers: Mapping[str, Limits]
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)

    def column(self, limit: str) -> Column:
        """The value of one limit for the row's `broker_name`."""
        value = F.lit(getattr(self.default, limit))
        for broker_name, limits in self.brokers.items():
            value = F.when(F.col("broker_name") == broker_name, F.lit(getattr(limits, limit))).otherwise(value)
        return value

    def has_role(self, role: str) -> Column:
        """True for rows of brokers in `role`."""
        value = F.lit(self.default.role == role)
        for broker_name, limits in self.brokers.items():
            value = F.when(F.col("broker_name") == broker_name, F.lit(limits.role == role)).otherwise(value)
        return value
