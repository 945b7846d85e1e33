"""The class by which Spark's Delta commits on S3, compiled in the driver's JVM by the compiler that Spark has in it.

Nothing has to be put on any node: only drivers commit.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.errors import EnvironmentFault
from txmq_lib.files.scratch import scratch
from txmq_lib.spark.jvm import jvm_class

CLASS = "txmq.ConditionalPutLogStore"
_SOURCE = "ConditionalPutLogStore.java"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def load_log_store(spark: SparkSession) -> None:
    """Make the class known to the driver; EnvironmentFault where Spark has no connector for S3."""
    loader = jvm_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    for name in (_S3A, CLASS):
        if _has(loader, name):
            continue
        if name == _S3A:
            raise EnvironmentFault(
                "this Spark cannot read S3: put the jars of org.apache.hadoop:hadoop-aws:3.4.2 and"
                " software.amazon.awssdk:bundle:2.29.52 beside its own (documentation: Object stores)"
            )
        compiler = jvm_class(spark, "org.codehaus.janino.SimpleCompiler")()
        compiler.setParentClassLoader(loader)
        compiler.cook(files(__package__).joinpath(_SOURCE).read_text(encoding="utf-8"))
        place = Path(mkdtemp(dir=scratch(), prefix="classes-"))
        for compiled, content in compiler.getBytecodes().items():
            file = place.joinpath(*compiled.split(".")).with_suffix(".class")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(content))
        loader.addURL(jvm_class(spark, "java.io.File")(str(place)).toURI().toURL())


def _has(loader: object, name: str) -> bool:
    try:
        loader.loadClass(name)  # type: ignore[attr-defined]
    except Py4JJavaError:
        return False
    return True
