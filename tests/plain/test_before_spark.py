"""What is wrong with a command's own words is said before a JVM starts."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from txmq_lib.cli import main
from txmq_lib.cli.run.warehouse_findings import warehouse_findings

ID = "C000020246654E0E2F2A6940C2510000"


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    """Runs one command from an empty directory; its status and its last line. A JVM is not to be had."""

    def no_jvm(*_: object) -> None:
        raise AssertionError("a JVM would have started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txmq_lib.cli.run.passes.build_session", no_jvm)
    for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT", "TXMQ_CONF"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str]:
        status = main(arguments)
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1, err
        return status, err.strip()

    return run


def test_paths_that_are_not_there(said):
    words = "error NOTHING_TO_LAND: nothing to land at a.jsonl, /gone/b: there is no such file or directory"
    assert said("land", "half", "a.jsonl", "/gone/b", "--broker", "b") == (2, words)
    assert said("land", "end", "file:///gone/b.jsonl", "--broker", "b")[0] == 2
    assert said("land", "end", "*.jsonl", "--broker", "b")[0] == 2
    Path("empty").mkdir()
    Path("empty/notes.txt").write_text("")
    assert said("land", "half", "empty", "--broker", "b") == (
        2,
        "error NOTHING_TO_LAND: nothing to land at empty: give files or directories of .jsonl, .jsonl.gz, .ndjson,"
        " .ndjson.gz, .parquet",
    )
    Path("odd {1} it's *.jsonl").write_text("")
    for there in ("*.jsonl", "odd {1} it's *.jsonl", f"file://{Path.cwd()}/*.jsonl"):
        assert "a JVM would have started" in said("land", "end", there, "--broker", "b")[1], there
    words = "error INPUT_UNREADABLE: store /gone is no directory: give a store directory that holds commitlog/"
    assert said("land", "store", "/gone", "--broker", "b", "--set", "role=audit") == (3, words)


def test_an_address_where_nobody_can_listen(said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = f"error USAGE: cannot listen at {address}: Address already in use"
        assert said("serve", "--listen", address) == (2, words)


def test_a_directory_that_is_no_store(said):
    Path("empty").mkdir()
    status, err = said("land", "store", "empty", "--broker", "b", "--set", "role=audit")
    assert (status, "commit log empty/commitlog: No such file or directory" in err) == (3, True)
    Path("empty/commitlog").mkdir()
    status, err = said("land", "store", "empty", "--broker", "b", "--set", "role=audit")
    assert (status, "empty holds no commit log files (commitlog/<20 digits>)" in err) == (3, True)


def test_a_path_that_only_spark_can_look_at_is_left_to_it(said, monkeypatch):
    for arguments in (("s3a://bucket/a.jsonl",), ("a.jsonl", "--set", "spark.spark.hadoop.fs.defaultFS=hdfs://n:1")):
        assert "a JVM would have started" in said("land", "half", *arguments, "--broker", "b")[1]
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert "a JVM would have started" in said("land", "half", "a.jsonl", "--broker", "b")[1]


def test_an_object_store_that_is_not_there(said, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    written = []
    monkeypatch.setattr("txmq_lib.cli.run.recorded.write_runs", lambda *_, **__: written.append(1) or "")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        for port, commands in (
            (9, ("init", "reconcile", "pending")),
            (silent.getsockname()[1], ("reconcile", "status")),
        ):
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            for command in commands:
                begun = time.monotonic()
                status, err = said("--warehouse", "s3://lake/w", command)
                assert status == 3
                assert err.startswith("error WAREHOUSE_UNREACHED: warehouse s3://lake/w: the store cannot be reached (")
                assert len(err.splitlines()) == 1
                assert time.monotonic() - begun < 5
    assert not written  # it would be tried as long as a table may take


def test_a_namenode_that_is_not_there(said, monkeypatch):
    written = []
    monkeypatch.setattr("txmq_lib.cli.run.recorded.write_runs", lambda *_, **__: written.append(1) or "")
    uri = "hdfs://127.0.0.1:9/w"
    words = f"warehouse {uri}: the NameNode cannot be reached (Connection refused): look at the network and the URI"
    for command in ("init", "reconcile", "run", "status", "pending"):
        begun = time.monotonic()
        assert said("--warehouse", uri, command) == (3, f"error WAREHOUSE_UNREACHED: {words}")
        assert time.monotonic() - begun < 5
    assert [(each.state, each.found) for each in warehouse_findings(uri, datetime.now(UTC), {})] == [("fail", words)]
    assert not written


def test_a_namenode_that_takes_connections_is_left_to_spark(said):
    """Who has no port is a name of Hadoop's settings."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        for place in (f"127.0.0.1:{there.getsockname()[1]}", "a-cluster"):
            assert "a JVM would have started" in said("--warehouse", f"hdfs://{place}/w", "init")[1]


def test_a_warehouse_on_hdfs_that_nobody_has_written_to_is_no_failure(monkeypatch):
    monkeypatch.setattr("txmq_lib.views.tables.DeltaTable", SimpleNamespace(is_deltatable=lambda *_: False))
    with socket.create_server(("127.0.0.1", 0)) as there:
        uri = f"hdfs://127.0.0.1:{there.getsockname()[1]}/w"
        found = [(each.state, each.found) for each in warehouse_findings(uri, datetime.now(UTC), {})]
    assert found == [
        ("warn", f"{uri} is not on this machine"),
        ("ok", f"none yet in {uri}: the first pass makes them"),
    ]


def test_an_endpoint_without_its_scheme(said, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9")
    words = "AWS_ENDPOINT_URL: must begin with http:// or https:// and name a host"
    for command in ("init", "reconcile", "status", "pending"):
        assert said("--warehouse", "s3://lake/w", command) == (3, f"error ENVIRONMENT: {words}")
    assert [each.found for each in warehouse_findings("s3://lake/w", datetime.now(UTC), {})] == [words]


def test_a_panic_of_a_library_is_no_finding(said, monkeypatch):
    class PanicException(BaseException):
        pass

    def panics(*_):
        raise PanicException("request valid")

    monkeypatch.setattr("txmq_lib.views.tables.Tables.readable", panics)
    status, err = said("pending")
    assert (status, err) == (3, "error UNEXPECTED: PanicException: request valid (--verbose shows where)")


def test_sources_where_none_is_configured(said):
    status, err = said("land", "sources", "--set", "role=audit")
    assert status == 2
    assert err.startswith("error NOTHING_TO_LAND: the settings name no sources")


def test_one_source_of_several_that_can_be_read_is_enough(said):
    gone, files = "{kind: store, paths: [/gone], broker: b}", "{kind: end, paths: [to-come/*.jsonl], broker: b}"
    for command in (("run",), ("land", "sources")):
        assert "store /gone is no directory" in said(*command, "--set", "role=audit", "--set", f"sources=[{gone}]")[1]
        some = said(*command, "--set", "role=audit", "--set", f"sources=[{gone}, {files}]")
        assert "a JVM would have started" in some[1]


def test_name_servers_that_do_not_answer(said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, err = said("land", "rocketmq", "--namesrv", address, "--set", "role=audit")
    assert status == 3
    assert err.startswith(f"error BROKER_UNREACHABLE: no name server answers: {address}: ")


def test_a_warehouse_that_cannot_be_made(said, tmp_path):
    (tmp_path / "file").write_text("")
    status, err = said("reconcile", "--warehouse", "file/w")
    assert (status, err) == (
        3,
        f"error INPUT_UNREADABLE: warehouse {tmp_path}/file/w cannot be made: Not a directory",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("settle", ID, "--commit", "--reason", "r"),
        ("resume", ID),
        ("resume", ID, "--apply"),
        ("take-back", "--broker", "b"),
    ],
)
def test_a_warehouse_that_is_not_there(said, arguments, tmp_path):
    status, err = said(*arguments, "--warehouse", "none")
    assert status == 2
    assert f"no warehouse at {tmp_path}/none; name yours by --conf or --warehouse, or let a first txmq run" in err
    assert not Path("none").exists()


def test_a_store_whose_set_up_is_refused(said, tmp_path):
    log = tmp_path / "store" / "dledger-n0" / "data" / ("0" * 20)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x")
    status, err = said("land", "store", "store", "--broker", "b", "--set", "role=audit")
    assert status == 3
    assert err.startswith("error STORE_REFUSED: the store store is not read, and nothing of it lands: dledger: ")
    assert "land the live broker" in err
