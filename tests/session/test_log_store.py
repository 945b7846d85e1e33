"""Spark's commits on a file system: of two of one number one fails, however close they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.errors import EnvironmentFault
from txmq_lib.files.object_stores import LOG_STORE_KEY
from txmq_lib.spark.jvm import jvm_class
from txmq_lib.spark.log_store import FILE_LOG_STORE, adopt_session, require_log_store

pytestmark = pytest.mark.spark

ROUNDS = 1000  # of Delta's own class both believe that they have committed in some five
# Two threads of the JVM that write one entry after the other, each at the same moment.
RACE = """
package txmq;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicIntegerArray;
public class Race {
    public static int notWonByOne(final io.delta.storage.LogStore store, final String place, final int rounds,
            final org.apache.hadoop.conf.Configuration conf) throws Exception {
        final CyclicBarrier together = new CyclicBarrier(2);
        final AtomicIntegerArray won = new AtomicIntegerArray(rounds);
        Thread[] writers = new Thread[2];
        for (int each = 0; each < 2; each++) {
            writers[each] = new Thread() { public void run() {
                for (int round = 0; round < rounds; round++) {
                    java.util.ArrayList lines = new java.util.ArrayList();
                    lines.add("{}");
                    try {
                        together.await();
                        String entry = place + "/" + (1000000 + round) + ".json";
                        store.write(new org.apache.hadoop.fs.Path(entry), lines.iterator(), Boolean.FALSE, conf);
                        won.incrementAndGet(round);
                    } catch (java.io.IOException taken) {
                    } catch (Exception broken) {
                        throw new RuntimeException(broken);
                    }
                }
            } };
            writers[each].start();
        }
        writers[0].join();
        writers[1].join();
        int count = 0;
        for (int round = 0; round < rounds; round++) {
            count += won.get(round) == 1 ? 0 : 1;
        }
        return count;
    }
}
"""


@pytest.fixture
def store(spark: SparkSession) -> Any:
    """An instance of the class, as Delta makes one."""
    return instance(spark, FILE_LOG_STORE)


def array(spark: SparkSession, of: str, *values: Any) -> Any:
    made = spark.sparkContext._gateway.new_array(jvm_class(spark, of), len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made


def loader(spark: SparkSession) -> Any:
    return jvm_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()


def instance(spark: SparkSession, name: str) -> Any:
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    types = array(spark, "java.lang.Class", configuration.getClass())
    return (
        loader(spark).loadClass(name).getConstructor(types).newInstance(array(spark, "java.lang.Object", configuration))
    )


def put(spark: SparkSession, store: Any, entry: Path, *lines: str, overwrites: bool = False) -> None:
    actions = jvm_class(spark, "java.util.ArrayList")()
    for line in lines:
        actions.add(line)
    path = jvm_class(spark, "org.apache.hadoop.fs.Path")(f"file:{entry}")
    store.write(path, actions.iterator(), overwrites, spark.sparkContext._jsc.hadoopConfiguration())


def test_an_entry_is_put_once_and_nothing_stays_beside_it(spark, store, tmp_path):
    entry = tmp_path / "a b%20\u00e9" / "00000000000000000001.json"
    entry.parent.mkdir()
    put(spark, store, entry, "first", "\u00e9")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        put(spark, store, entry, "second")
    assert entry.read_text(encoding="utf-8") == "first\n\u00e9\n"
    assert os.listdir(entry.parent) == [entry.name]
    put(spark, store, entry, "third", overwrites=True)
    assert entry.read_text() == "third\n"


def test_of_two_writers_of_one_entry_one_alone_believes_that_it_is_there(spark, store, tmp_path):
    compiler = jvm_class(spark, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(loader(spark))
    compiler.cook(RACE)
    race = compiler.getClassLoader().loadClass("txmq.Race").getMethods()[0]
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    arguments = array(spark, "java.lang.Object", store, tmp_path.as_uri(), ROUNDS, configuration)
    assert race.invoke(None, arguments) == 0
    assert len(os.listdir(tmp_path)) == ROUNDS


def test_spark_commits_to_a_table_here_by_it(spark, tmp_path):
    place = tmp_path / "table"
    spark.range(1).write.format("delta").save(str(place))
    log = jvm_class(spark, "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, str(place))
    path = jvm_class(spark, "org.apache.hadoop.fs.Path")(place.as_uri())
    assert log.store().getDelegate(path).logStoreImpl().getClass().getName() == FILE_LOG_STORE


def test_a_session_that_lets_two_writers_overwrite_each_other_on_s3_is_refused(spark):
    with pytest.raises(EnvironmentFault, match=LOG_STORE_KEY):
        require_log_store(spark, "s3://bucket/w")


def test_a_session_whose_driver_is_elsewhere_is_refused(tmp_path):
    class OfConnect:
        """Neither a JVM nor a context, as pyspark.sql.connect.session.SparkSession."""

    with pytest.raises(EnvironmentFault, match="without Spark Connect"):
        adopt_session(cast("SparkSession", OfConnect()), str(tmp_path))


def test_entries_may_be_read_by_whom_their_directory_lets(spark, store, tmp_path):
    put(spark, store, tmp_path / "1.json", "first")
    (tmp_path / "2.json").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("1.json", "2.json")}
    assert len(modes) == 1
