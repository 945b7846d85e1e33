"""A warehouse on a real S3 server (MinIO), behind a proxy that counts requests, waits and fails them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import minio
import pyarrow as pa
import pytest
from captured import unpack_store
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from far_passes import FarPasses
from moment import NOW_TEXT
from pages import environment, marked, steps, written
from pyarrow.fs import FileSelector, copy_files
from s3_proxy import Fault, Faults, S3Proxy, no_fault
from small_log import SmallLog
from truth import VERDICT_COUNTS

from txmq_lib.cli.run.recorded import Run
from txmq_lib.delta.run_rows import TIDIED_EVERY, append_runs

pytestmark = pytest.mark.real

MOST_S = 4.5  # until it is told that a store does not answer, beside what a command takes that asks none
MOST_REQUESTS, MOST_REQUESTS_OF_A_PASS, MOST_OF_A_CHECKPOINT = 60, 160, 40
MOST_OF_AN_IDLE_RUN, MOST_OF_A_ROW = 50, 6
MOST_WAITS_OF_A_VIEW = 40  # one after the other; a view asks for more things at once, the more passes there were
ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    with minio.behind_proxy(tmp_path_factory.mktemp("minio")) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def is_sound_again(store: S3Proxy) -> Iterator[None]:
    yield
    store.set(delay_s=0.0, fails=no_fault)


def appended(table: DeltaTable, number: int) -> None:
    landed = CommitProperties(app_transactions=[Transaction("a", number)])
    write_deltalake(table, ROWS, mode="append", commit_properties=landed)


def test_of_two_commits_of_one_number_one_fails(store):
    uri = f"s3a://{minio.BUCKET}/two"
    write_deltalake(uri, ROWS)
    one, other = DeltaTable(uri), DeltaTable(uri)
    appended(one, 1)
    with pytest.raises(CommitFailedError):
        appended(other, 1)
    assert DeltaTable(uri).version() == 1


def test_the_proxy_counts_and_fails_what_it_is_told_to(store):
    uri = f"s3a://{minio.BUCKET}/counted"
    write_deltalake(uri, ROWS)
    with store.counting() as seen:
        DeltaTable(uri)
    assert seen.total == 4
    assert (seen.kinds["LIST"], seen.kinds["GET"]) == (1, 3)
    store.set(fails=Faults(Fault.UNAVAILABLE, kind="GET", first=1, every=3))
    with store.counting() as seen:
        assert DeltaTable(uri).version() == 0
    assert seen.total > 4  # asked again


# Two of Spark's threads and two of deltalake's on one table, in a JVM that knows S3.
RACE = """
import sys, threading
import pyarrow as pa
from deltalake import write_deltalake
from txmq_lib.config.settings import Settings
from txmq_lib.spark.session import build_session
uri, classes = sys.argv[1:]
spark = build_session("race", Settings.load((), (f"spark.spark.driver.extraClassPath={classes}",), uri))
def by_spark(number):
    for row in range(3):
        spark.createDataFrame([(10 * number + row,)], "n long").write.format("delta").mode("append").save(uri)
def by_deltalake(number):
    for row in range(3):
        write_deltalake(uri, pa.table({"n": pa.array([10 * number + row], pa.int64())}), mode="append")
threads = [threading.Thread(target=work, args=(n,)) for n, work in enumerate([by_spark, by_deltalake] * 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_of_commits_of_spark_and_of_deltalake_at_once_none_is_lost(store):
    uri = f"s3a://{minio.BUCKET}/race"
    write_deltalake(uri, pa.table({"n": pa.array([], pa.int64())}))
    store.set(delay_s=0.05)
    raced = subprocess.run(
        [sys.executable, "-c", RACE, uri, classes()], capture_output=True, text=True, timeout=900, check=False
    )
    assert raced.returncode == 0, raced.stderr[-2000:]
    rows = DeltaTable(uri).to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows) == [10 * number + row for number in range(4) for row in range(3)]
    assert DeltaTable(uri).version() == 12


# What a process of Spark's sees of a log.
LOOK = """
import sys
from txmq_lib.config.settings import Settings
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import HadoopFolder
from txmq_lib.spark.session import build_session
uri, classes = sys.argv[1:]
spark = build_session("look", Settings.load((), (f"spark.spark.driver.extraClassPath={classes}",), uri))
for since in (None, 2):
    entries = LogEntries(HadoopFolder(spark, uri))
    print("newest", entries.newest(since=since), [len(entries.commit(number).added) for number in (0, 1, 2)])
"""


def test_of_a_log_only_its_own_entries_count(store):
    """S3 lists what lies below a folder, and in folders whose names begin alike."""
    uri = f"s3a://{minio.BUCKET}/copied"
    for _ in range(3):
        write_deltalake(uri, ROWS, mode="append")
    files = minio.file_system(store.port)
    for place in ("_delta_log/backup", "_delta_log_old", "_delta_log/_delta_log", "_delta_log_old/_delta_log"):
        for number in (2, 40):
            with files.open_output_stream(f"{minio.BUCKET}/copied/{place}/{number:020d}.json") as copy:
                copy.write(b"{}\n")
    looked = subprocess.run(
        [sys.executable, "-c", LOOK, uri, classes()], capture_output=True, text=True, timeout=300, check=False
    )
    assert looked.returncode == 0, looked.stderr[-2000:]
    lines = [line for line in looked.stdout.splitlines() if line.startswith("newest")]
    assert lines == ["newest 2 [1, 1, 1]"] * 2


def tell(figures: str) -> None:
    sys.stderr.write(figures + "\n")


def classes() -> str:
    return ":".join(map(str, minio.jars()))


def txmq(conf: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "txmq"), "--conf", str(conf), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_500, check=False, env={**os.environ})
    assert done.returncode == status, done.stderr[-3000:]
    return done


def timed(command: str, conf: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """A command, and its wall seconds."""
    begun = time.monotonic()
    words = [str(Path(sys.executable).parent / "txmq"), "--conf", str(conf), *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return done, time.monotonic() - begun


def settings_file(place: Path, warehouse: str) -> Path:
    conf = place / "txmq.yaml"
    conf.write_text(
        f"warehouse: {warehouse}\nrole: audit\nspark:\n  spark.driver.extraClassPath: {classes()}\n", encoding="utf-8"
    )
    return conf


def test_the_capture_on_a_store_gives_its_verdicts_and_an_idle_run_asks_little(store, tmp_path):
    conf = settings_file(tmp_path, f"s3://{minio.BUCKET}/basic")
    assert (
        f"ok    tables       none yet in s3://{minio.BUCKET}/basic: the first pass makes them"
        in txmq(conf, "doctor").stdout
    )
    txmq(conf, "land", "store", str(unpack_store("basic", tmp_path)), "--broker", "broker-a", "--now", NOW_TEXT)
    txmq(conf, "run", "--now", NOW_TEXT)
    lines = txmq(conf, "verdicts", "--format", "json", "--limit", "100000").stdout.splitlines()
    shown = [json.loads(line) for line in lines]
    assert Counter(row["verdict"] for row in shown) == VERDICT_COUNTS["basic"]
    for number in range(6):  # one more than there are rows of `run` between two of its checkpoints
        with store.counting() as seen:
            txmq(conf, "run", "--now", NOW_TEXT)
        of_rows = sum("/run/" in unquote(each.path) for each in seen.requests)
        tell(f"idle run {number}: {seen}; {of_rows} for its row")
        assert seen.total <= MOST_OF_AN_IDLE_RUN
        assert of_rows <= MOST_OF_A_ROW
    for view in ("status", "pending", "landed"):
        with store.counting() as seen:
            txmq(conf, view)
        tell(f"{view}: {seen}")


def test_the_page_runs_as_written_on_a_server_of_ones_own(store, tmp_path):
    page, jars = "object-stores.md", tmp_path / "jars"
    theirs = {"/opt/txmq": str(jars), "s3://my-bucket": f"s3://{minio.BUCKET}", "http://127.0.0.1:9000": store.url}

    def ours(text: str) -> str:
        for their, our in theirs.items():
            text = text.replace(their, our)
        return text

    written(page, tmp_path)
    conf = tmp_path / "mine.yaml"
    conf.write_text(ours(conf.read_text(encoding="utf-8")), encoding="utf-8")
    page_blocks = marked("object-stores.md", "test_the_page_runs_as_written_on_a_server_of_ones_own")
    script = "\n".join(ours(step.command) for block in page_blocks for step in steps(block))
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(jar.name for jar in jars.iterdir()) == ["bundle-2.29.52.jar", "hadoop-aws-3.4.2.jar"]
    assert "none yet in" in done.stdout
    assert "VERDICTS" in done.stdout
    assert "hadoop-aws" not in done.stdout  # doctor misses nothing


def test_the_rows_of_runs_are_put_together_though_that_takes_longer_than_a_row_may(store, tmp_path):
    """Cut off at its limit by the end of Python, deltalake ended the process by SIGSEGV."""
    uri = f"s3://{minio.BUCKET}/rows"
    conf = settings_file(tmp_path, uri)
    txmq(conf, "init")
    for number in range(TIDIED_EVERY - 1):
        append_runs(uri, [Run("audit", datetime.now(UTC) + timedelta(seconds=number)).row(None, "ended", None)])
    store.set(delay_s=0.04)
    done = txmq(conf, "run", "--now", NOW_TEXT)
    assert "not recorded" not in done.stderr
    assert "not put together" not in done.stderr
    table = DeltaTable(f"{uri}/run")
    assert (table.to_pyarrow_table().num_rows, len(table.file_uris())) == (TIDIED_EVERY, 1)


def test_what_a_cycle_and_a_pass_ask_does_not_grow_with_passes(store, tmp_path):
    passes = FarPasses(f"s3a://{minio.BUCKET}/passes", classes())
    store.set(delay_s=0.02)
    try:
        for count in (0, 1, 25):  # more commits than there are between two checkpoints
            for _ in range(count):
                passes.ask("halves")
                with store.counting() as seen:
                    passes.ask("pass")
                # Spark would ask for the head of each file that it reads, for its footer and for its columns.
                heads = [request for request in seen.requests if request.kind == "HEAD"]
                assert len(heads) <= 2, heads  # of logs
                assert [request.path for request in heads if "/_delta_log/" not in request.path] == []
                made = sum(request.kind == "PUT" and ".checkpoint." in request.path for request in seen.requests)
                assert made <= 1
                assert seen.total <= MOST_REQUESTS_OF_A_PASS + made * MOST_OF_A_CHECKPOINT
            passes.ask("cycle")
            passes.ask("round")
            for step in ("cycle", "round", "beside"):
                with store.counting() as seen:
                    figures = passes.ask(step)
                tell(f"{step} after {count} passes more: {figures['seconds']} s, {seen}")
                assert seen.total <= MOST_REQUESTS
    finally:
        passes.close()
    conf = settings_file(tmp_path, f"s3://{minio.BUCKET}/passes")
    for view in (("trace", "C000020246654E0E0000000000000005"), ("status",), ("pending",)):
        with store.counting() as seen:
            txmq(conf, *view)
        tell(f"{view[0]}: {seen}")
        assert seen.waits <= MOST_WAITS_OF_A_VIEW


def test_a_store_in_a_bucket_lands_by_tasks_as_on_this_disk(store, tmp_path):
    log = SmallLog()
    for number in range(200):
        half = log.half(f"T{number}")
        if number % 3:
            log.commit(half)
            log.op(half)
    log.plain("%RETRY%dead")  # of a bucket's key nothing is an escaped byte
    here = log.write_store(tmp_path)
    log.write_consume_queues(here)
    there = f"s3://{minio.BUCKET}/stores/broker-a"
    copy_files(str(here), there.removeprefix("s3://"), destination_filesystem=minio.file_system(store.port))
    landed = []
    for number, path in enumerate((str(here), there)):
        conf = settings_file(tmp_path, str(tmp_path / f"warehouse-{number}"))
        txmq(conf, "land", "store", path, "--broker", "broker-a", "--now", NOW_TEXT)
        tables = {
            name: DeltaTable(str(tmp_path / f"warehouse-{number}" / name))
            for name in ("half_message", "op_message", "message")
        }
        landed.append({name: rows_of(table) for name, table in tables.items()})
    assert len(landed[0]["half_message"]) == 200
    assert landed[1] == landed[0]
    conf.write_text(
        conf.read_text(encoding="utf-8") + f"sources: [{{kind: store, paths: ['{there}'], broker: broker-a}}]\n",
        encoding="utf-8",
    )
    assert f"ok sources store of broker-a: {there}" in " ".join(txmq(conf, "doctor").stdout.split())
    done, _ = timed(f"land store {there}-gone --broker broker-a", conf)
    assert "holds no commit log files" in done.stderr
    assert done.returncode != 0


def rows_of(table: DeltaTable) -> list[dict[str, object]]:
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["commit_log_offset"])


@pytest.mark.parametrize(
    ("uri", "environment", "words"),
    [
        ("s3://nowhere/w", {}, "there is no bucket nowhere"),
        (f"s3://{minio.BUCKET}/w", {"AWS_SECRET_ACCESS_KEY": "another"}, "refuses the credentials (SignatureDoesNotMatch)"),
        (f"s3://{minio.BUCKET}/w", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "cannot be reached"),
        (f"s3://{minio.BUCKET}/w", {"AWS_ENDPOINT_URL": "SILENT"}, "cannot be reached"),
        (f"s3://{minio.BUCKET}/w", {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "AWS_S3_LOCKING_PROVIDER"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_store_is_one_line_before_a_jvm_starts(
    store, tmp_path, monkeypatch, uri, environment, words
):
    conf = settings_file(tmp_path, uri)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        for name, value in environment.items():
            monkeypatch.setenv(name, value.replace("SILENT", f"http://127.0.0.1:{silent.getsockname()[1]}"))
        # Views write nothing, so that nobody can overwrite it.
        for command in ("init", "doctor", *(() if "LOCKING" in words else ("status", "pending"))):
            asks_nobody = timed("--version", conf)[1]
            done, taken = timed(command, conf)
            tell(f"{command}, {words}: {taken:.1f} s; --version {asks_nobody:.1f} s")
            assert [words in line for line in (done.stdout + done.stderr).splitlines()].count(True) == 1
            assert done.returncode != 0
            assert taken - 4 * asks_nobody < MOST_S  # more is imported, too
    assert len(done.stderr.splitlines()) <= 2


def test_a_server_that_lets_writers_overwrite_each_other_is_refused_before_a_table_is_made(store, tmp_path):
    conf = settings_file(tmp_path, f"s3://{minio.BUCKET}/unsafe")
    for command, fault, words in (
        ("init", Fault.TAKEN, "takes a second PUT"),
        (f"run --now {NOW_TEXT}", Fault.TAKEN, "takes a second PUT"),
        ("init", Fault.UNKNOWN, "does not know PUT"),
    ):
        store.set(fails=Faults(fault, kind="PUT"))
        done, _ = timed(command, conf)
        said = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")]
        assert (done.returncode, len(said)) == (3, 1), done.stderr
        assert said[0].startswith(f"error WAREHOUSE_UNSAFE: warehouse s3a://lake/unsafe: its server {words}")
    assert names_below("unsafe", store) == []
    store.set(fails=no_fault)
    txmq(conf, "init")
    assert [name for name in names_below("unsafe", store) if "two_writers" in name] == []


def names_below(folder: str, store: S3Proxy) -> list[str]:
    found = minio.file_system(store.port).get_file_info(FileSelector(minio.BUCKET, recursive=True))
    return [each.path for each in found if each.path.startswith(f"{minio.BUCKET}/{folder}")]
