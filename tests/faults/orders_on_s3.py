"""The orders of two jobs (orders.py) in one warehouse on S3. Needs MinIO, which Go builds: `--only s3-orders`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import minio
import pytest
from far import FarPlaces, far_places
from orders import PAIRS, Ordered, Orders


class OrdersOnS3(Orders):
    """Its warehouse is in the bucket, and so are all copies."""

    def __init__(self, place: Path, far: FarPlaces) -> None:
        self._far = far
        super().__init__(place)

    def base(self) -> str:
        """Where the warehouse is that all are copies of."""
        return f"s3a://{minio.BUCKET}/base"

    def assignments(self) -> list[str]:
        """The jars by which Spark reads S3."""
        return [f"spark.spark.driver.extraClassPath={':'.join(map(str, minio.jars()))}"]

    def copied(self, name: str) -> str:
        """A copy under a name that no other has."""
        return self._far.copied("base", name)

    def removed(self, name: str) -> None:
        """Remove a copy."""
        self._far.removed(name)

    def found(self, name: str) -> tuple[Path, dict[str, Counter[str]]]:
        """A copy on this disk, and every row of it."""
        return self._far.fetched(name)


def named(first: str, second: str) -> str:
    """The name of the fault."""
    return f"s3-orders-{first}-{second}"


def run(place: Path, only: str, most: int = 0) -> Iterator[Ordered]:
    """A line for each pair of jobs whose name contains `only`."""
    with far_places(place) as (far, proxy), pytest.MonkeyPatch.context() as environment:
        for name, value in minio.environ(proxy.url).items():
            environment.setenv(name, value)
        orders = OrdersOnS3(place, far)
        for first, second in (pair for pair in PAIRS if only in named(*pair)):
            yield orders.pair(first, second, most)
