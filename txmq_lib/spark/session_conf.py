"""Keys of a session for a while: some Delta writes, and the planning of small passes, take them from nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf
from pyspark.sql import SparkSession


def where_unset(spark: SparkSession, settings: Mapping[str, str]) -> dict[str, str]:
    """What of `wanted` nobody has set for this session: a key that somebody set stays as it is."""
    conf = SparkConf(_jconf=spark.sparkContext._jsc.getConf())  # as getConf gives it, which copies key after key
    return {key: value for key, value in settings.items() if not conf.contains(key)}


@contextmanager
def session_conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Within it the session has these values; afterwards what it had before, or nothing."""
    conf = spark.conf
    before: dict[str, str | None] = {key: conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            conf.set(key, value)
        yield
    finally:
        for key, former in before.items():
            if former is None:
                conf.unset(key)
            else:
                conf.set(key, former)
