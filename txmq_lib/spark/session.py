"""Builds the SparkSession, alone; whatever Spark must be told about a session is told here."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread, main_thread
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from txmq_lib.config.secrets import SPARK_REGEX
from txmq_lib.config.settings import Settings
from txmq_lib.errors import EnvironmentFault
from txmq_lib.files.atomic_file import own_umask
from txmq_lib.files.object_stores import spark_settings
from txmq_lib.files.scratch import scratch
from txmq_lib.spark.jars import coordinates, require_jars
from txmq_lib.spark.java import require_java
from txmq_lib.spark.jvm_start import LOOPBACK, is_local, start_jvm
from txmq_lib.spark.log_store import FILE_LOG_STORE, FILE_LOG_STORE_KEY, load_log_stores, require_log_store

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
    FILE_LOG_STORE_KEY: FILE_LOG_STORE,
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
# What Spark's own logs and pages hide, unless it is said otherwise.
_HIDDEN = {"spark.redaction.regex": SPARK_REGEX}
# Only where txmq starts the JVM itself: spark-submit has its own say in these.
_LAUNCH = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The least that a sort, a group or a table sent to tasks takes, were it for one row: Spark itself chooses 32 MiB of
    # 2 GiB. A task has at most 8,192 of them.
    "spark.buffer.pageSize": "4m",
}
_LOCAL = {
    # Where all of Spark is one JVM, nobody else has to reach it. A local process may still try: it must know a secret.
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.authenticate": "true",
    # Nor can it lose an executor. A machine that slept for two minutes would have, and its JVM would end for it.
    "spark.storage.blockManagerHeartbeatTimeoutMs": str(1000 * 86_400_000),
}


def build_session(app_name: str, settings: Settings) -> SparkSession:
    """A session with Delta, in UTC; on one machine unless spark-submit or the settings name a master.

    Precedence: what results depend on, `settings.spark`, what Delta needs, spark-submit, tuning for one machine.
    EnvironmentFault where Java is missing, or Delta's jars are missing or are not the pinned ones.
    """
    configuration = {**_CHOSEN, **_HIDDEN, **spark_settings(settings.warehouse), **settings.spark, **_FIXED}
    if not _is_submitted():
        require_java()
        require_jars()
        # Tables are addressed by path; Spark still makes the directory, and it should not be where a command was typed.
        unused = {"spark.sql.warehouse.dir": str(scratch() / "spark-warehouse")}
        # Hadoop sets permissions itself, by an umask of its own.
        permissions = {"spark.hadoop.fs.permissions.umask-mode": f"{own_umask():03o}"}
        configuration = {**_LAUNCH, **unused, **permissions, **configuration}
        start_jvm(configuration, without=settings.secret_variables())
    configuration = {**_of_one_jvm(configuration), **configuration}
    builder = SparkSession.builder.appName(app_name)
    for key, value in configuration.items():
        builder = builder.config(key, value)
    with ThreadPoolExecutor(max_workers=1) as pool:
        # Beside Spark's start, which has one thing to do at a time.
        loading = pool.submit(load_log_stores, SparkContext._jvm, configuration.get, settings.warehouse)
        _start_context(app_name, configuration)
        spark = builder.getOrCreate()
    _look_names_up_once(cast("Any", spark.sparkContext._jvm))
    # Else pyspark prints each analysis error as a line of JSON before it raises it.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if _is_submitted() and not spark.sparkContext.getConf().contains("spark.log.level"):
        spark.sparkContext.setLogLevel("WARN")
    _require_delta(spark)
    loading.result()
    require_log_store(spark, settings.warehouse)
    if is_local(str(spark.sparkContext.master)):
        _tune_for_one_machine(spark, settings)
    return spark


def _of_one_jvm(settings: Mapping[str, str]) -> dict[str, str]:
    """What Spark is to be told where the master is local: its sockets stay on this machine, unless they are said to
    listen elsewhere.

    What spark-submit or spark-defaults.conf say is in the JVM by now, and counts as said.
    """
    SparkContext._ensure_initialized()
    said = SparkConf()
    known = {**dict(said.getAll()), **settings}
    if not is_local(known.get("spark.master", "local")):
        return {}
    is_elsewhere = any(key in known for key in ("spark.driver.host", "spark.driver.bindAddress"))
    own = {key: value for key, value in _LOCAL.items() if key not in known}
    if is_elsewhere:
        own = {key: value for key, value in own.items() if not key.startswith("spark.driver.")}
    # Spark's pages listen everywhere but where this variable tells them, before the JVM starts.
    if _is_submitted() and "SPARK_LOCAL_IP" not in os.environ and "spark.ui.enabled" not in known:
        own["spark.ui.enabled"] = "false"
    return own


def open_to_others(spark: SparkSession) -> str | None:
    """What is to be said of a cluster whose processes take words from anybody; None where they ask for a secret."""
    conf = spark.sparkContext.getConf()
    if is_local(str(spark.sparkContext.master)) or conf.get("spark.authenticate", "false") == "true":
        return None
    return (
        f"Spark's RPC at {spark.sparkContext.master} asks for no secret: whoever reaches its ports can run code;"
        " set spark.authenticate there"
    )


def session_beside(spark: SparkSession, settings: Settings) -> SparkSession:
    """Another session in the same JVM, with settings of its own that begin as those of `build_session`."""
    beside = spark.newSession()
    if is_local(str(spark.sparkContext.master)):
        _tune_for_one_machine(beside, settings)
    return beside


def is_session_alive(spark: SparkSession) -> bool:
    """Whether the JVM answers and its context runs."""
    try:
        context = spark.sparkContext._jsc
        return context is not None and not context.sc().isStopped()
    except Exception:  # py4j has no one error for a JVM that is gone
        return False


def _start_context(app_name: str, configuration: Mapping[str, str]) -> None:
    """Start the SparkContext without pyspark's handler for SIGINT.

    It asks the JVM to cancel all jobs, in the middle of whatever this thread is asking, and raises. Signals are for
    whoever owns the process.
    """
    before = signal.getsignal(signal.SIGINT)
    SparkContext.getOrCreate(SparkConf().setAppName(app_name).setAll(list(configuration.items())))
    if current_thread() is main_thread():
        signal.signal(signal.SIGINT, before)


def _is_submitted() -> bool:
    """Whether spark-submit runs this process: its JVM is up, with all that can only be said before the start."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


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
    for name in ("PythonUtils", "PythonSQLUtils", "functions", "org.apache.spark.sql.functions"):
        if name not in vars(jvm):
            setattr(jvm, name, _LookedUpOnce(getattr(jvm, name)))


def _require_delta(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    if jvm is not None and not jvm.org.apache.spark.util.Utils.classIsLoadable(_CHOSEN["spark.sql.extensions"]):
        raise EnvironmentFault(
            f"this Spark has no Delta: spark-submit --packages {coordinates()}, or run python -m txmq_lib.spark.jars"
        )


def _tune_for_one_machine(spark: SparkSession, settings: Settings) -> None:
    """Partition counts near the core count: Spark's and Delta's own (200, 50, 10,000) serve clusters."""
    if "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    cores = str(spark.sparkContext.defaultParallelism)
    conf = spark.sparkContext.getConf()
    for key, value in {
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": cores,
    }.items():
        if not conf.contains(key) and key not in settings.spark:
            spark.conf.set(key, value)
