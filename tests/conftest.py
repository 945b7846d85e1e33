"""What all tests share: one lazy Spark session per process, a warehouse to write to, and a fixed now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from moment import NOW

TESTS = Path(__file__).parent
PLAIN = TESTS / "plain"
SPARK_SETTINGS = ("spark.spark.master=local[2]", "spark.spark.driver.memory=2g")
# Java's second compiler costs the fast tests a fifth; over fifteen minutes of whole passes it saves a sixth, later more.
FAST = (PLAIN, TESTS / "rules")
# Room for classes and young rows saves it a tenth: else Java collects all it has whenever the classes have grown.
WITH_SECOND_COMPILER = (
    "spark.spark.driver.extraJavaOptions=-XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    " -XX:MetaspaceSize=512m -Xmn700m"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker(pytest.mark.spark)
        if item.path.is_relative_to(PLAIN):
            raise pytest.UsageError(f"{item.nodeid}: a plain test must not ask for Spark; move it out of tests/plain")


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The one session of this process, built as txmq builds it, with scratch of its own beside other xdist workers."""
    # Imported here, so that a run of plain tests does not even load pyspark.
    from txmq_lib.config.resources import conf_dir
    from txmq_lib.config.settings import Settings
    from txmq_lib.spark.session import build_session

    scratch = tmp_path_factory.mktemp("spark")
    own = [f"spark.spark.local.dir={scratch}", f"spark.spark.sql.warehouse.dir={scratch}/spark-warehouse"]
    if not all(any(item.path.is_relative_to(room) for room in FAST) for item in request.session.items):
        own.append(WITH_SECOND_COMPILER)
    session = build_session("txmq-tests", Settings.load([conf_dir() / "few-rows.yaml"], [*SPARK_SETTINGS, *own]))
    yield session
    session.stop()


@pytest.fixture
def warehouse_dir(tmp_path: Path) -> Path:
    """An empty place for Delta tables."""
    return tmp_path / "warehouse"


@pytest.fixture
def now() -> datetime:
    """The moment at which tests happen."""
    return NOW


@pytest.fixture(autouse=True)
def _plain_tests_start_no_jvm(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _running_jvm()
    yield
    if request.path.is_relative_to(PLAIN):
        assert _running_jvm() is before, "a plain test started a JVM"


def _running_jvm() -> object:
    context = sys.modules.get("pyspark.core.context")
    return context.SparkContext._gateway if context else None
