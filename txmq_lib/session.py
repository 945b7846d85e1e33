"""Builds the SparkSession, alone; whatever Spark must be told about a session is told here."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from threading import Thread
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from txmq_lib.errors import EnvironmentFault
from txmq_lib.jars import coordinates, jars_dir, require_jars, spark_home
from txmq_lib.java import require_java
from txmq_lib.resources import conf_dir
from txmq_lib.settings import Settings

# What results depend on; no other layer may change it.
_FIXED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Of a property written twice the later counts (semantics of MessageDecoder.string2messageProperties).
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}
_CHOSEN = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A stack trace taken for every column made in Python: a third of the time it takes to build a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The same in the JVM, and Delta makes many columns of its own.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # A pass compiles some 270 classes. Spark keeps 100, so that each pass of a warm session compiled them all anew.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # The read views use deltalake, which cannot read tables with deletion vectors.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
# Only where txmq starts the JVM itself: spark-submit has its own say in these.
_LAUNCH = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Tables are addressed by path; Spark still makes the directory, and it should not be where a command was typed.
    "spark.sql.warehouse.dir": str(Path(gettempdir(), "txmq-spark-warehouse")),
}
# Where else Java takes options from.
_JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def build_session(app_name: str, settings: Settings) -> SparkSession:
    """A session with Delta, in UTC; on one machine unless spark-submit or the settings name a master.

    Precedence: what results depend on, `settings.spark`, what Delta needs, spark-submit, tuning for one machine.
    EnvironmentFault where Java is missing, or Delta's jars are missing or are not the pinned ones.
    """
    configuration = {**_CHOSEN, **settings.spark, **_FIXED}
    if not _is_submitted():
        require_java()
        require_jars()
        configuration = {**_LAUNCH, **configuration, **_java_options(settings)}
        _start_jvm(configuration)
    builder = SparkSession.builder.appName(app_name)
    for key, value in configuration.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _look_names_up_once(cast("Any", spark.sparkContext._jvm))
    # Else pyspark prints each analysis error as a line of JSON before it raises it.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if _is_submitted() and not spark.sparkContext.getConf().contains("spark.log.level"):
        spark.sparkContext.setLogLevel("WARN")
    _require_delta(spark)
    if str(spark.sparkContext.master).startswith("local"):
        _tune_for_one_machine(spark, settings)
    return spark


def session_beside(spark: SparkSession, settings: Settings) -> SparkSession:
    """Another session in the same JVM, with settings of its own that begin as those of `build_session`."""
    beside = spark.newSession()
    if str(spark.sparkContext.master).startswith("local"):
        _tune_for_one_machine(beside, settings)
    return beside


def _is_submitted() -> bool:
    """Whether spark-submit runs this process: its JVM is up, with all that can only be said before the start."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _java_options(settings: Settings) -> dict[str, str]:
    key = "spark.driver.extraJavaOptions"
    given = settings.spark.get(key, "")
    defaults = settings.spark.get("spark.driver.defaultJavaOptions", "")
    quiet = f"-Dlog4j2.configurationFile={(conf_dir() / 'log4j2.properties').as_uri()}"
    return {key: " ".join(filter(None, (quiet, collector(f"{defaults} {given}", os.environ), given)))}


def collector(given: str, environ: Mapping[str, str]) -> str:
    """The Java option that chooses the garbage collector; empty where `given` options or `environ` choose one.

    A pass waits for nobody: what counts is how soon it is done, and over many rows G1 takes longer. Java does not start
    with two.
    """
    said = " ".join((given, *[environ.get(name, "") for name in _JAVA_OPTIONS]))
    return "" if re.search(r"-XX:\+Use\w+GC\b", said) else "-XX:+UseParallelGC"


def _start_jvm(configuration: Mapping[str, str]) -> None:
    """Start the Spark that came with pyspark, with this Python in its workers, whatever else is on the machine."""
    if SparkContext._gateway is not None:
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if jars_dir().is_dir():
        os.environ["SPARK_HOME"] = str(spark_home())
    conf = SparkConf(loadDefaults=False).setAll(list(configuration.items()))
    reading, writing = os.pipe()
    Thread(target=_pass_on, args=(reading,), daemon=True).start()
    try:
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, popen_kwargs={"stderr": writing}))
    except PySparkRuntimeError as error:
        raise EnvironmentFault(
            "Spark's JVM did not start: what it said stands above; less memory can be asked for"
            " by --set spark.spark.driver.memory=1g."
        ) from error
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    """The JVM's stderr without the line that Spark's own module options cause and no option of Java can silence."""
    with open(reading, "rb") as told:
        for line in told:
            if not line.startswith(b"WARNING: Using incubator modules"):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line)


class _LookedUpOnce:
    """A class of the JVM whose static members are asked for once each."""

    def __init__(self, java_class: object) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> object:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def _look_names_up_once(jvm: Any) -> None:  # noqa: ANN401 - py4j has no types
    """Keep what pyspark's own code asks the JVM for with every column: py4j keeps no answer.

    A short name is looked for in every package that pyspark imports, and each miss searches all jars: 2 ms of the 3 ms
    that a `select` or `coalesce` takes to build.
    """
    for name in ("PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions"):
        if name not in vars(jvm):
            setattr(jvm, name, _LookedUpOnce(getattr(jvm, name)))


def _require_delta(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    if jvm is not None and not jvm.org.apache.spark.util.Utils.classIsLoadable(_CHOSEN["spark.sql.extensions"]):
        raise EnvironmentFault(
            f"this Spark has no Delta: give spark-submit --packages {coordinates()}, or run python -m txmq_lib.jars."
        )


def _tune_for_one_machine(spark: SparkSession, settings: Settings) -> None:
    """Partition counts near the core count: Spark's and Delta's own (200, 50, 10,000) serve clusters."""
    if "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    cores = str(spark.sparkContext.defaultParallelism)
    given = spark.sparkContext.getConf()
    for key, value in {
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": cores,
    }.items():
        if not given.contains(key) and key not in settings.spark:
            spark.conf.set(key, value)
