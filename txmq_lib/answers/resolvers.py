"""The resolver that settings describe, with its secrets; one that cannot be used says so to every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import SparkSession

from txmq_lib.answers.credentials import SecretMissingError, database_url, headers
from txmq_lib.answers.delta import DeltaResolver
from txmq_lib.answers.http import HttpResolver
from txmq_lib.answers.protocol import RESOLVER_UNUSABLE, Answer, Check, Resolver, no_answer
from txmq_lib.answers.sql import SqlResolver
from txmq_lib.config.resolver_settings import DeltaResolver as DeltaSettings
from txmq_lib.config.resolver_settings import ResolverSettings
from txmq_lib.config.resolver_settings import SqlResolver as SqlSettings


class Unusable:
    """Stands for a resolver whose secret is not there."""

    batch_size = 1_000
    half_columns: tuple[str, ...] = ()

    def __init__(self, why: str) -> None:
        self.down: Answer | None = no_answer(RESOLVER_UNUSABLE, why)

    def answers(self, checks: Sequence[Check]) -> list[Answer]:
        """No answer to any."""
        return [self.down or no_answer(RESOLVER_UNUSABLE, "")] * len(checks)

    def close(self) -> None:
        """Nothing to let go of."""


def resolver_of(
    settings: ResolverSettings, *, spark: SparkSession, environ: Mapping[str, str], now: datetime
) -> Resolver:
    """The resolver of `settings`; `now` decides how old an absent row's transaction is."""
    try:
        if isinstance(settings, SqlSettings):
            return SqlResolver(settings, database_url(settings, environ), now=now)
        if isinstance(settings, DeltaSettings):
            return DeltaResolver(settings, spark, now=now)
        return HttpResolver(settings, headers(settings, environ))
    except SecretMissingError as missing:
        return Unusable(str(missing))
