"""`txmq doctor`: each check by what it finds, in good and in bad, and the status it ends with."""

from __future__ import annotations

import json
import shutil
import socket
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from moment import NOW
from remoting_server import FakeBroker, RemotingServer, answer

from txmq_lib.cli.run.findings import directory_finding, package_findings
from txmq_lib.cli.run.warehouse_findings import clock_finding, time_findings
from txmq_lib.names import HALF_TOPIC
from txmq_lib.spark import jars
from txmq_lib.views.reader import WarehouseReader


@pytest.fixture
def found(txmq):
    """Runs the command; its status, and (state, found, to do) of every finding of one check."""

    def run(check: str, *arguments: str) -> tuple[int, list[tuple[str, str, str]]]:
        status, out, _ = txmq("doctor", "--format", "json", *arguments)
        rows = [json.loads(line) for line in out.splitlines()]
        return status, [(row["state"], row["found"], row["to do"]) for row in rows if row["check"] == check]

    return run


def test_a_sound_installation_has_nothing_that_fails(warehouse, txmq):
    uri = warehouse({"landing_frontier": [{"broker_name": "a", "highest_store_timestamp": "2026-11-21T12:00:00Z"}]})
    status, out, err = txmq("--warehouse", uri, "doctor")
    state_of = {line.split()[1]: line.split()[0] for line in out.splitlines() if line[:1] != " "}
    assert {"fail"} & set(state_of.values()) == set()
    assert set(state_of) == {
        "python", "packages", "java", "jars", "host", "locale", "memory", "scratch", "settings", "sources", "warehouse", "clock",
        "tables",
    }  # fmt: skip
    assert (status, state_of["tables"], state_of["settings"]) == (0, "ok", "ok")
    assert err.startswith("0 failed, ")
    assert [path.name for path in Path(uri).iterdir() if path.name.startswith(".txmq")] == []


def test_every_fault_of_the_settings_is_told_and_nothing_that_needs_them(found):
    status, settings = found("settings", "--set", "role=boss", "--set", "chek_max=3")
    assert status == 3
    assert [(state, text.split(":")[1].strip()) for state, text, _ in settings] == [
        ("fail", "role"),
        ("fail", "chek_max"),
    ]
    assert found("warehouse", "--set", "role=boss")[1] == []


def test_a_locale_that_is_not_utf8_is_told_of(found, monkeypatch):
    monkeypatch.setattr("locale.getencoding", lambda: "ANSI_X3.4-1968")
    [(state, words, to_do)] = found("locale")[1]
    assert (state, to_do) == ("warn", "set LC_ALL=C.UTF-8")
    assert words.startswith("ANSI_X3.4-1968: ")


def test_a_temporary_folder_that_will_not_do_fails(found, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    assert found("scratch")[1][0][:2] == ("fail", f"TMPDIR={tmp_path / 'nowhere'} cannot be used")
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr("txmq_lib.cli.run.findings.is_noexec", lambda directory: directory == Path("/tmp"))
    assert "noexec" in found("scratch")[1][-1][1]


def test_no_java_fails_with_what_to_do(found, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    status, [(state, words, advice)] = found("java")
    assert (status, state) == (3, "fail")
    assert words == "Spark needs Java 17 or newer and JAVA_HOME=/nowhere has no bin/java"
    assert advice.startswith("install a Java runtime")


def test_missing_jars_are_fetched_by_each_session_so_they_only_warn(found, monkeypatch, tmp_path):
    monkeypatch.setattr(jars, "jars_dir", lambda: tmp_path)
    _, [(state, words, advice)] = found("jars")
    assert (state, str(tmp_path) in words) == ("warn", True)
    assert "-m txmq_lib.spark.jars" in advice


def test_a_jar_that_is_not_the_pinned_one_fails(found, monkeypatch, tmp_path):
    monkeypatch.setattr(jars, "jars_dir", lambda: tmp_path)
    (tmp_path / jars.jar_names()[1]).write_bytes(b"PK")
    status, [(state, words, advice)] = found("jars")
    assert (status, state) == (3, "fail")
    assert words.startswith(f"{tmp_path / jars.jar_names()[1]} is not the jar that txmq knows (sha256 ")
    assert "find out who changed it" in advice


def test_another_spark_in_the_environment_is_named(found, monkeypatch, tmp_path):
    assert found("spark")[1] == []
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    _, [(state, _, advice)] = found("spark")
    assert (state, advice) == ("warn", "unset SPARK_HOME")
    monkeypatch.setenv("SPARK_HOME", str(jars.spark_home()))
    assert found("spark")[1] == []


def test_a_host_without_an_address_fails_unless_spark_is_told_one(found, monkeypatch):
    def no_address(name):
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", no_address)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert found("host")[1][0][0] == "fail"
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert found("host")[1][0][0] == "ok"


def test_packages_of_other_versions_warn_and_missing_ones_fail(monkeypatch):
    def judged(*requirements: str) -> tuple[str, str]:
        monkeypatch.setattr(
            "txmq_lib.cli.run.findings.requires", lambda name: [*requirements, 'pytest==1; extra == "x"']
        )
        [finding] = package_findings()
        return finding.state, finding.found

    own = version("duckdb")
    for allowed in (f"duckdb=={own}", "duckdb<9,>=0.9.10", f"duckdb<9.0.1,>={own}"):
        assert judged(allowed) == ("ok", "1 in versions that txmq allows"), allowed
    for refused in ("duckdb==0.0.1", "duckdb<9,>=8.10.1", f"duckdb<{own},>=0.1"):
        assert judged(refused) == ("warn", f"duckdb {own}, needed {refused.removeprefix('duckdb')}")
    assert judged("no-such-package<2,>=1") == ("fail", "no-such-package missing, needed <2,>=1")


def test_a_warehouse_that_cannot_be_written_fails(found, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    status, [(state, words, advice)] = found("warehouse", "--warehouse", str(tmp_path / "file" / "w"))
    assert (status, state) == (3, "fail")
    assert words == f"{tmp_path}/file cannot be written: Not a directory"
    assert advice


def test_a_new_warehouse_is_judged_by_the_directory_above_it(found, tmp_path):
    _, [(state, words, _)] = found("warehouse", "--warehouse", str(tmp_path / "a" / "b"))
    assert (state, words.split(":")[0]) == ("ok", str(tmp_path))
    assert found("tables", "--warehouse", f"file:{tmp_path}/a/b")[1][0][0] == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "state"), [(200 * 2**20 - 1, "fail"), (200 * 2**20, "warn"), (5 * 2**30 - 1, "warn"), (5 * 2**30, "ok")]
)
def test_little_room_warns_and_none_fails(monkeypatch, tmp_path, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert directory_finding("warehouse", tmp_path, "").state == state


def test_sources_are_looked_for(found, tmp_path):
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "ends.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    paths = {"store": ["store", "empty", "gone"], "end": ["*.jsonl"]}
    sources = [
        {"kind": kind, "paths": [f"{tmp_path}/{path}" for path in listed], "broker": "b"}
        for kind, listed in paths.items()
    ]
    status, words = found("sources", "--set", f"sources={json.dumps(sources)}", "--warehouse", str(tmp_path / "w"))
    assert [state for state, _, _ in words] == ["ok", "fail", "fail", "ok"]
    assert status == 3
    assert words[1][1].endswith("/empty has no directory commitlog")
    assert words[2][1].endswith("/gone does not exist")
    later = '[{"kind": "end", "paths": ["/none/yet/*.jsonl"], "broker": "b"}]'
    assert found("sources", "--set", f"sources={later}")[1][0][0] == "warn"
    afar = '[{"kind": "end", "paths": ["s3a://bucket/ends"], "broker": "b"}]'
    assert found("sources", "--set", f"sources={afar}")[1][0][0] == "warn"


def name_server(masters: dict[str, str], *topics: str):
    """Answers of a name server: each of these brokers has a half topic, and these; an empty address: it has no master."""

    def reply(request):
        if request["code"] == 206:
            return answer(request, body=json.dumps({"topicList": [HALF_TOPIC, *topics]}).encode())
        document = {
            "queueDatas": [
                {"brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in masters
            ],
            "brokerDatas": [
                {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address} if address else {"1": "x:1"}}
                for name, address in masters.items()
            ],
        }
        return answer(request, body=json.dumps(document).encode())

    return reply


def live(*addresses: str, **more: object) -> tuple[str, str]:
    return "--set", f"sources={json.dumps([{'kind': 'rocketmq', 'namesrv': addresses, **more}])}"


def test_live_brokers_are_asked_whether_they_let_their_halves_be_read(found, tmp_path):
    closed = FakeBroker({})
    closed.before = lambda request: answer(request, 16, remark="denied") if request["code"] == 11 else None
    with (
        RemotingServer(FakeBroker({})) as open_,
        RemotingServer(closed) as denies,
        RemotingServer(FakeBroker({})) as off,
    ):
        off.close()
        brokers = {"a": open_.address, "b": denies.address, "c": off.address, "d": ""}
        with RemotingServer(name_server(brokers)) as server:
            uri = ("--warehouse", str(tmp_path / "w"), *live(server.address))
            status, sources = found("sources", *uri)
            _, roles = found("role", *uri, "--set", "brokers={a: {role: audit}}")
            _, (unknown,) = found("sources", *uri[:2], *live(server.address, broker="x"))
    assert (status, [state for state, _, _ in sources]) == (3, ["ok", "fail", "fail", "fail"])
    words = f"rocketmq {server.address}: "
    assert [text.removeprefix(words).partition(":")[0] for _, text, _ in sources] == [
        *(f"a at {open_.address.partition(':')[0]}", "b", "c", "d has no master")
    ]
    assert "code 16, denied" in sources[1][1]
    assert "Connection refused" in sources[2][1]
    assert [text for state, text, _ in roles if state == "fail"] == [
        f"{name}: nobody has said its role" for name in "bcd"
    ]
    assert (unknown[0], "know no broker x" in unknown[1]) == ("fail", True)
    # What is asked for reading commits nothing and goes by a group of its own.
    assert {request["extFields"].get("consumerGroup") for request in open_.requests} <= {None, "TXMQ_READER"}


def test_how_a_live_broker_is_set_up_is_named_before_anything_lands(found, tmp_path):
    config = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false", "enableLmq": "true",
              "transactionCheckMax": "3"}  # fmt: skip
    lines = "".join(f"{name}={value}\n" for name, value in config.items())
    tells, silent = FakeBroker({}), FakeBroker({})
    tells.before = lambda request: answer(request, body=lines.encode()) if request["code"] == 26 else None
    compacted = {"attributes": {"cleanup.policy": "COMPACTION"}}
    tells.topics = {"topicConfigTable": {"TopicC": compacted, "TopicA": {}, "TopicNotWanted": compacted},
                    "topicQueueMappingDetailMap": {f"TopicS{n}": {} for n in range(5)}}  # fmt: skip
    topics = "TopicA", "TopicC", *(f"TopicS{n}" for n in range(5))
    with (
        RemotingServer(tells) as first,
        RemotingServer(silent) as second,
        RemotingServer(name_server({"a": first.address, "b": second.address}, *topics)) as server,
    ):
        _, sources = found("sources", "--warehouse", str(tmp_path / "w"), *live(server.address))
    (state, words, _), (other, unsaid, _) = sources
    assert (state, other) == ("ok", "ok")
    for name in (
        "rocksdb_halves: it keeps",
        "lmq",
        "compaction: TopicC",
        "static_topics: TopicS0, TopicS1, TopicS2 and 2 more",
    ):
        assert f"; {name}" in words
    assert "; transactionCheckMax is 3, and transaction_check_max here is 15" in words
    assert "TopicA" not in words
    assert "TopicNotWanted" not in words
    assert "; how it is set up could not be read: " in unsaid


def test_a_name_server_that_does_not_answer_fails(found, tmp_path):
    with RemotingServer(name_server({})) as server:
        _, [(state, nobody, _)] = found("sources", "--warehouse", str(tmp_path / "w"), *live(server.address))
        assert (state, nobody.endswith("no broker with half messages")) == ("warn", True)
    status, [(state, text, advice)] = found("sources", "--warehouse", str(tmp_path / "w"), *live(server.address))
    assert (status, state) == (3, "fail")
    assert text.startswith(f"rocketmq {server.address}: no name server answers: {server.address}: ")
    assert advice


def test_every_variable_that_the_settings_name_must_be_set(found, tmp_path, monkeypatch):
    conf = tmp_path / "txmq.yaml"
    log = "kind: sql, table: t, key_column: k, state_column: s, commit: [done]"
    conf.write_text(
        "role: audit\nrocketmq: {access_key_env: ACCESS_KEY, secret_key_env: SECRET_KEY}\n"
        "alerts: {url_env: HOOK_URL, headers_env: {Authorization: HOOK_TOKEN}}\n"
        f"resolvers: {{GID_PAY: {{url_env: ORDERS_URL, {log}}}}}\n"
        "sources: [{kind: rocketmq, namesrv: ['127.0.0.1:1']}]\n"
    )
    variables = ["ACCESS_KEY", "SECRET_KEY", "ORDERS_URL", "HOOK_URL", "HOOK_TOKEN"]
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    arguments = ("--conf", str(conf), "--warehouse", str(tmp_path / "w"))
    status, words = found("secrets", *arguments)
    assert status == 3
    assert [(state, [name for name in variables if name in text]) for state, text, _ in words] == [
        ("fail", [variable]) for variable in variables
    ]
    (source,) = found("sources", *arguments)[1]
    assert source[:2] == ("warn", "rocketmq 127.0.0.1:1 is not looked at")
    for variable in variables:
        monkeypatch.setenv(variable, "sqlite:///log.db")
    assert found("secrets", *arguments)[1] == []


def test_a_table_of_another_version_or_none_fails(found, warehouse):
    uri = warehouse({})
    other = pa.table({"tags": [1], "colour": ["red"]})
    write_deltalake(Path(uri) / "op_message", other, mode="overwrite", schema_mode="overwrite")
    shutil.rmtree(Path(uri) / "quarantine")
    status, words = found("tables", "--warehouse", uri)
    assert (status, [state for state, _, _ in words]) == (3, ["fail", "fail"])
    assert words[0][1].startswith("op_message: missing broker_name, queue_id, ")
    assert words[0][1].endswith("; unexpected colour; mistyped tags")
    assert "no table quarantine" in words[1][1]


@pytest.mark.parametrize(("apart", "state"), [(0, "ok"), (30, "warn"), (-30, "warn"), (120, "fail")])
def test_a_disk_with_another_clock_is_told(tmp_path, apart, state):
    assert clock_finding(tmp_path, datetime.now(UTC) + timedelta(seconds=apart)).state == state


def test_times_ahead_of_this_clock_are_told(warehouse):
    def ahead(seconds: int) -> list[tuple[str, str]]:
        later = (NOW + timedelta(seconds=seconds)).isoformat()
        rows = {
            "landing_frontier": [{"broker_name": "a", "highest_store_timestamp": later}],
            "pass": [{"job": "land", "pass_number": 1, "state": "committed", "wall_timestamp": later}],
        }
        return [(each.state, each.found) for each in time_findings(WarehouseReader(warehouse(rows)), NOW)]

    assert ahead(5) == []
    assert ahead(6) == [
        ("warn", "land pass is 6s ahead of this clock"), ("warn", "a message of a is 6s ahead of this clock")
    ]  # fmt: skip
    assert {state for state, _ in ahead(61)} == {"fail"}


def test_each_broker_has_the_role_its_rows_were_made_under_or_fails(warehouse, found, tmp_path):
    row = {"job": "land", "pass_number": 1, "recorded_timestamp": "2026-11-21T12:00:00Z"}
    uri = warehouse({"broker": [{**row, "broker_name": name, "role": "audit"} for name in ("a", "b")]})
    conf = tmp_path / "txmq.yaml"
    conf.write_text(
        "brokers: {a: {role: audit}, new: {role: engine}}\nsources: [{kind: store, paths: [/x], broker: s}]\n",
        encoding="utf-8",
    )
    status, words = found("role", "--warehouse", uri, "--conf", str(conf))
    assert status == 3
    assert [(state, text) for state, text, _ in words] == [
        ("ok", f"a: audit, says {conf}; its rows were made as audit"),
        ("fail", "b: nobody has said its role; its rows were made in the role audit"),
        ("ok", f"new: engine, says {conf}"),
        ("fail", "s: nobody has said its role"),
    ]
    assert words[1][2].startswith("say role: audit, or see txmq take-back --decisions")
