"""Houses for tests that run whole passes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from house import House
from pyspark.sql import SparkSession

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes import runner


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables, empty: made once, copied for each test."""
    path = tmp_path_factory.mktemp("empty") / "warehouse"
    Warehouse(spark, str(path)).create_missing()
    return path


@pytest.fixture
def is_small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether small passes are planned as such (an indirect parameter); else all as if they were over many rows."""
    if not request.param:
        monkeypatch.setattr(runner, "SMALL_PASS_BYTES", -1)
    return bool(request.param)


@pytest.fixture
def open_house(spark: SparkSession, empty_warehouse: Path, tmp_path: Path) -> Callable[..., House]:
    """A function that opens a new house with the settings given as key=value."""
    return partial(_opened, spark, empty_warehouse, tmp_path)


def _opened(spark: SparkSession, origin: Path, tmp_path: Path, *assignments: str, name: str = "w") -> House:
    place = tmp_path / name
    shutil.copytree(origin, place)
    settings = Settings.load(assignments=list(assignments), warehouse=str(place))
    return House(Warehouse(spark, str(place)), tmp_path, settings)


@pytest.fixture
def copied() -> Callable[[House, str], House]:
    """A function that copies a house with all its tables."""

    def copy(house: House, name: str) -> House:
        place = house.scratch / name
        shutil.copytree(house.warehouse.uri, place)
        return House(Warehouse(house.warehouse.spark, str(place)), house.scratch, house.settings)

    return copy
