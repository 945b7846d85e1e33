"""The classes by which Spark's Delta commits on S3 and on file systems, compiled in the JVM by what Spark has for it.

Of two commits of one number one must fail, and Delta's own classes promise that neither on S3 nor on a file system that
renames over what is there. Nothing has to be put on any node: executors that need them fetch them from the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, cast
from zipfile import ZipFile

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.errors import EnvironmentFault
from txmq_lib.files.object_stores import LOG_STORE, LOG_STORE_KEY, is_s3
from txmq_lib.spark.jvm import jvm_class
from txmq_lib.spark.jvm_start import is_local

FILE_LOG_STORE_KEY = "spark.delta.logStore.file.impl"
FILE_LOG_STORE = "txmq.LinkLogStore"
_LOG_STORES = ((LOG_STORE_KEY, LOG_STORE), (FILE_LOG_STORE_KEY, FILE_LOG_STORE))
# Spark's own default is true; pyspark sets false where it makes the context.
_ISOLATION = "spark.sql.artifact.isolation.enabled"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_TAKEN = "java.nio.file.FileAlreadyExistsException"


def require_log_store(spark: SparkSession, uri: str) -> None:
    """EnvironmentFault where a session that somebody else made lets writers on S3 overwrite each other."""
    if is_s3(uri) and spark.sparkContext.getConf().get(LOG_STORE_KEY) != LOG_STORE:
        raise EnvironmentFault(
            "this Spark session would let two writers overwrite each other on S3: make it with"
            f" {LOG_STORE_KEY}={LOG_STORE}"
        )


def adopt_session(spark: SparkSession, uri: str) -> None:
    """Take a session that somebody else made, for a warehouse at `uri`.

    EnvironmentFault where it is one of Spark Connect, or as of the two that it calls
    """
    if not isinstance(spark, SparkSession):
        raise EnvironmentFault(
            f"a run needs a Spark session whose driver is in this process, and this is a {type(spark).__module__}"
            f".{type(spark).__qualname__}: pass session= one without Spark Connect"
        )
    require_log_store(spark, uri)
    load_log_stores(spark._jvm, spark.sparkContext.getConf().get, uri)


def load_log_stores(jvm: Any, stated: Callable[[str], str | None], uri: str) -> None:  # noqa: ANN401 - py4j has no types
    """Make those classes known to the driver that Spark's settings name: half a second.

    stated  the value of a setting
    uri     of the warehouse
    Errors  EnvironmentFault where that is on S3 and Spark has no connector for S3
    """
    loader = _loader(jvm)
    for key, name in _LOG_STORES:
        if stated(key) != name or _has(loader, name):
            continue
        if name == LOG_STORE and not _has(loader, _S3A):
            if not is_s3(uri):
                continue  # stated for all that work with this Spark
            raise EnvironmentFault(
                "this Spark cannot read S3: put the jars of org.apache.hadoop:hadoop-aws:3.4.2 and"
                " software.amazon.awssdk:bundle:2.29.52 beside its own (documentation: Object stores)"
            )
        _compile(jvm, loader, name)


def share_log_stores(spark: SparkSession) -> None:
    """Let executors of other JVMs have those that were compiled here: tasks of VACUUM list a table by them.

    EnvironmentFault where Spark cannot serve them, or gives this session's tasks nothing but what the session has added
    """
    if is_local(str(spark.sparkContext.master)):
        return
    if spark.conf.get(_ISOLATION) == "true":
        raise EnvironmentFault(
            "upkeep on a cluster needs a class that this Spark session keeps from its executors: make it with"
            f" {_ISOLATION}=false"
        )
    jvm, context = cast("Any", spark._jvm), cast("Any", spark.sparkContext._jsc).sc()
    loader = _loader(jvm)
    for _, name in _LOG_STORES:
        if not _has(loader, name) or _is_served(context, name):
            continue
        jar = loader.loadClass(name).getProtectionDomain().getCodeSource().getLocation().toString()
        if PurePosixPath(jar).name != _jar_name(name):
            continue  # who put it on the class path of the driver put it on that of the executors
        context.addJar(jar)  # logs why it fails, and goes on
        if not _is_served(context, name):
            raise EnvironmentFault(f"Spark cannot give executors {jar}: start its process anew (a notebook's kernel)")


def put_new(spark: SparkSession, place: str, lines: Iterable[str]) -> bool:
    """Put lines as Delta puts the entry of a log; False where something else is there.

    Py4JJavaError where nobody knows what became of it.
    """
    content = jvm_class(spark, "java.util.ArrayList")()
    for line in lines:
        content.add(line)
    session = spark._jsparkSession
    store = getattr(jvm_class(spark, "org.apache.spark.sql.delta.storage.LogStore$"), "MODULE$").apply(session)
    actions = jvm_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(content.iterator())
    path = jvm_class(spark, "org.apache.hadoop.fs.Path")(place)
    try:
        store.write(path, actions, False, session.sessionState().newHadoopConf())
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _TAKEN:
            return False
        raise
    return True


def _compile(jvm: Any, loader: Any, name: str) -> None:  # noqa: ANN401
    compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(loader)
    source = files(__package__).joinpath(f"{name.rpartition('.')[2]}.java")
    compiler.cook(source.read_text(encoding="utf-8"))
    # The JVM's own, which may live longer than this process, as that of a notebook does.
    place = getattr(jvm, "org.apache.spark.util.Utils").createTempDir(
        getattr(jvm, "java.lang.System").getProperty("java.io.tmpdir"), "txmq-classes"
    )
    Path(str(place)).chmod(0o700)
    jar = Path(str(place)) / _jar_name(name)
    with ZipFile(jar, "w") as classes:
        for compiled, content in compiler.getBytecodes().items():
            classes.writestr(f"{compiled.replace('.', '/')}.class", bytes(content))
    loader.addURL(getattr(jvm, "java.io.File")(str(jar)).toURI().toURL())


def _jar_name(name: str) -> str:
    return f"{name}.jar"


def _is_served(context: Any, name: str) -> bool:  # noqa: ANN401
    return _jar_name(name) in {PurePosixPath(jar).name for jar in context.listJars().mkString("\n").splitlines()}


def _loader(jvm: Any) -> Any:  # noqa: ANN401
    return getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()


def _has(loader: Any, name: str) -> bool:  # noqa: ANN401
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True
