"""The command line without a warehouse: arguments, the clock, exit statuses, and what it must not import."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from txmq_lib.cli import main
from txmq_lib.cli.app import globals_first
from txmq_lib.cli.options import location, settings_files
from txmq_lib.cli.output.render import write_csv
from txmq_lib.cli.output.tables import fitting, write_table
from txmq_lib.cli.run.clock import moment, time_ago, wall_clock
from txmq_lib.cli.run.decisions import summary
from txmq_lib.cli.run.demo import tell_next
from txmq_lib.cli.run.passes import is_past_threshold
from txmq_lib.config.settings import Settings
from txmq_lib.errors import UsageError
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.decision_request import findings, left_alone

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"pyspark", "py4j", "delta", "pyarrow", "pandas", "duckdb", "deltalake", "sqlalchemy", "httpx"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    output = capsys.readouterr()
    return status, output.out, output.err


def imported_by(*arguments: str) -> set[str]:
    code = "import sys; from txmq_lib.cli import main; main(sys.argv[1:]); print('\\n' + ' '.join(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return {name.partition(".")[0] for name in ran.stdout.splitlines()[-1].split()}


def test_global_options_may_stand_behind_the_command_but_not_behind_two_dashes():
    assert globals_first(["reconcile", "--now", "5", "--warehouse", "w", "--set", "a=b", "-v", "--conf=x"]) == [
        "--warehouse", "w", "--set", "a=b", "-v", "--conf=x", "reconcile", "--now", "5"
    ]  # fmt: skip
    assert globals_first(["land", "half", "p", "--broker", "b"]) == ["land", "half", "p", "--broker", "b"]
    assert globals_first(["land", "half", "--", "--conf", "-v"]) == ["land", "half", "--", "--conf", "-v"]
    with pytest.raises(UsageError, match=r"^--warehouse needs a value: --warehouse URI$"):
        globals_first(["pending", "--warehouse"])


def test_a_bare_call_shows_the_help(capsys):
    status, out, err = run(capsys)
    assert status == 2
    assert "Usage: txmq" in out + err


def test_now_is_iso_8601_or_epoch_milliseconds_in_utc_and_whole_milliseconds():
    expected = datetime(2026, 11, 21, 10, 30, 51, 730_000, tzinfo=UTC)
    for text in (
        "2026-11-21T10:30:51.730Z",
        "2026-11-21T10:30:51.730",
        "2026-11-21 10:30:51.730999",
        "2026-11-21T18:30:51.730+08:00",
        "1795257051730",
    ):
        assert moment(text) == expected, text
        assert moment(text).utcoffset() == UTC.utcoffset(None), text
    assert moment("-1") == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert moment("2026-11-21") == datetime(2026, 11, 21, tzinfo=UTC)
    assert wall_clock().microsecond % 1000 == 0
    for text in ("", "yesterday", "2026-13-01", "9" * 30, "--5", "1.5"):
        with pytest.raises(UsageError, match="give ISO 8601 such as"):
            moment(text)
    with pytest.raises(UsageError, match=r"^--since yesterday: .* or a span such as 90s"):
        time_ago("yesterday", expected)


def test_a_plan_is_told_by_its_actions_and_an_empty_one_as_nothing_to_do():
    plan = [{"action": "resume"}, {"action": "expired"}, {"action": "resume"}]
    assert summary(plan, is_sent=False) == "1 expired, 2 resume; nothing was written: --apply does it"
    assert summary(plan, is_sent=True) == "1 expired, 2 resume; nothing was written or sent: --apply does it"
    assert summary([], is_sent=False).startswith("nothing to do: no given-up transaction fits;")


def test_a_plan_of_what_a_broker_decides_says_whether_and_by_whom_it_is_told():
    plan = [{"action": "commit", "is_brokers": True}]
    assert list(findings(plan, [])) == ["its broker decides: the end is recorded; --to-broker sends it"]
    assert list(findings(plan, ["n:1", "m:2"])) == [
        "its broker decides: END_TRANSACTION with these offsets is sent to it, found by name server n:1, m:2"
    ]
    assert list(findings([{"action": "commit", "is_brokers": False}], ["n:1"])) == []


class Incomparable(dict):
    """A row that must not be compared with the others: of 50,000 rows that takes a minute."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None


def test_the_rows_of_a_plan_are_not_compared_with_each_other():
    actions = ("commit", "settled_before", "expired", "settled_before")
    plan = [Incomparable(action=action, is_brokers=action == "settled_before") for action in actions]
    assert left_alone(plan) == {"settled_before": 2, "expired": 1}
    expired, sent = findings(plan, ["n:1"])
    assert (expired.startswith("1 older"), sent.startswith("settled so before, and its broker decides")) == (True, True)


@pytest.mark.parametrize(
    "command",
    [["settle", "T1", "--commit", "--reason", "paid"], ["resume", "--all"], ["resolve"]],
)
def test_without_a_name_server_nothing_is_begun_that_is_to_be_sent(capsys, tmp_path, command):
    status, out, err = run(capsys, "--warehouse", str(tmp_path / "w"), *command, "--to-broker", "--apply")
    assert (status, out) == (2, "")
    assert err == "error USAGE: --to-broker needs a name server: give --namesrv, or a source of kind rocketmq\n"
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("command", "broker"),
    [
        (["land", "store", "x", "--broker", "b"], "b"),
        (["land", "rocketmq", "--namesrv", "127.0.0.1:1"], r"\(all there are\)"),
        (["land", "rocketmq", "--namesrv", "127.0.0.1:1", "--broker", "b"], "b"),
        (["--set", "sources=[{kind: store, paths: [x], broker: b}]", "run"], "b"),
        (["--set", "sources=[{kind: store, paths: [x], broker: b}]", "serve"], "b"),
        (["--set", 'sources=[{kind: rocketmq, namesrv: ["127.0.0.1:1"]}]', "run"], r"\(all there are\)"),
    ],
)
def test_no_store_and_no_live_broker_lands_under_a_role_that_nobody_said(capsys, tmp_path, command, broker):
    status, out, err = run(capsys, "--set", "brokers.other={}", "--warehouse", str(tmp_path / "w"), *command)
    assert (status, out) == (2, "")
    assert re.search(f"not set for broker {broker}: say `audit` where a RocketMQ broker decides", err)
    assert {each.name for each in (tmp_path / "w").iterdir()} == {"run", "_runs"}  # that it was refused, and no more


def test_the_demo_names_the_commands_that_tell_which_messages_are_stuck_the_oldest_first(capsys, tmp_path):
    stuck = [("B", "GID_B", "DISCARDED"), ("A", "GID_A", "DISCARDED"), ("C", "GID_C", "COMMITTED")]
    names = ("transaction_id", "producer_group", "verdict")
    tell_next(tmp_path, [dict(zip(names, row, strict=True)) for row in stuck])
    out = capsys.readouterr().out
    assert f"--conf {tmp_path}/txmq.yaml verdicts --state stuck --group GID_A\n" in out
    assert f"--conf {tmp_path}/txmq.yaml trace A\n" in out
    tell_next(tmp_path, [])
    assert "stuck" not in capsys.readouterr().out


def test_a_relative_warehouse_is_one_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert location("w") == location("./w") == f"{tmp_path}/w"
    for warehouse in ("/w", "file:/w", "s3a://bucket/w"):
        assert location(warehouse) == warehouse


def test_usage_and_settings_errors_end_with_status_2(capsys):
    assert run(capsys, "bogus")[0] == 2
    assert run(capsys, "land", "half", "x.jsonl")[0] == 2
    assert run(capsys, "pending", "--limit", "0")[0] == 2
    assert run(capsys, "pending", "--format", "xml")[0] == 2
    status, _, err = run(capsys, "trace", "C0", "--format", "csv")
    assert (status, err) == (
        2, "error USAGE: trace has no csv: its events differ in their columns; take --format json\n"
    )  # fmt: skip
    status, out, err = run(capsys, "--set", "role=boss", "--set", "chek_max=3", "pending")
    assert (status, out) == (2, "")
    assert err.startswith("error SETTINGS_INVALID: ")
    assert "role" in err
    assert "chek_max" in err
    assert "Traceback" not in err


def test_a_damaged_table_ends_with_status_3_in_one_line_and_its_trace_only_when_asked_for(capsys, tmp_path):
    log = tmp_path / "pending_half" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("no json\n")
    status, out, err = run(capsys, "--warehouse", str(tmp_path), "pending")
    assert (status, out) == (3, "")
    assert err.startswith(f"error INPUT_UNREADABLE: table {tmp_path}/pending_half cannot be read: ")
    assert err.count("\n") == 1
    _, _, err = run(capsys, "-v", "--warehouse", str(tmp_path), "pending")
    assert err.startswith("Traceback")
    assert "error INPUT_UNREADABLE: " in err


def thresholds(**limits):
    return Settings.load().thresholds.model_copy(update=limits)


def test_quarantined_records_past_the_threshold_are_told(capsys):
    report = PassReport("land", 3, {"half": 9, "quarantine_half": 2, "quarantine_op": 1}, {})
    assert not is_past_threshold(report, thresholds(quarantined=None, unanswered=None))
    assert not is_past_threshold(report, thresholds(quarantined=3, unanswered=0))
    assert is_past_threshold(report, thresholds(quarantined=2, unanswered=0))
    assert capsys.readouterr().err == "3 records quarantined, thresholds.quarantined is 2\n"


def test_checks_that_a_resolver_could_not_answer_are_told_unless_it_is_allowed(capsys):
    report = PassReport("resolve", 3, {"asked": 9, "no_answer": 2, "no_answer:G": 2, "no_resolver": 7}, {})
    assert not is_past_threshold(report, thresholds(quarantined=0, unanswered=None))
    assert not is_past_threshold(report, thresholds(quarantined=0, unanswered=2))
    assert is_past_threshold(report, Settings.load().thresholds)
    assert capsys.readouterr().err == "2 checks without an answer, thresholds.unanswered is 0\n"


@pytest.mark.parametrize(("failure", "status"), [(None, 1), (typer.Exit(1), 1), (UsageError("no --namesrv"), 2)])
def test_a_check_without_an_answer_keeps_nothing_from_being_sent(capsys, monkeypatch, failure, status):
    sent = []

    def send(options, requested_for, *_, **__):
        sent.append(requested_for)
        if failure is not None:
            raise failure

    silent = PassReport("resolve", 3, {"asked": 2, "commit": 1, "no_answer": 1}, {})
    monkeypatch.setattr(
        "txmq_lib.cli.run.passes.spark_warehouse", lambda *_: nullcontext((SimpleNamespace(spark=None), None))
    )
    monkeypatch.setattr("txmq_lib.pipeline.resolve.run_resolve", lambda *_, **__: silent)
    monkeypatch.setattr("txmq_lib.cli.run.before_spark.require_name_servers", lambda *_: None)
    monkeypatch.setattr("txmq_lib.cli.commands.jobs.send", send)
    resolvers = 'resolvers={G: {kind: http, endpoints: ["http://127.0.0.1:1/"]}}'
    arguments = ("resolve", "--to-broker", "--apply", "--namesrv", "127.0.0.1:9876")
    assert (run(capsys, "--set", resolvers, *arguments)[0], sent) == (status, ["resolve"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("settle", "T", "--reason", "r"), "settle needs one of --commit and --rollback"),
        (("settle", "T", "--reason", "r", "--commit", "--rollback"), "settle needs one of --commit and --rollback"),
        (("settle", "T", "--reason", " ", "--commit"), "settle needs a --reason: it is recorded"),
        (("resume",), "resume needs transaction ids, or --group, or --all"),
        (("resume", "T", "--all"), "resume needs transaction ids, or --group, or --all"),
    ],
)
def test_a_manual_decision_must_say_what_it_means_before_anything_starts(capsys, arguments, words):
    assert run(capsys, *arguments) == (2, "", f"error USAGE: {words}\n")


SECRET_KEYS = (
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.box.acct.blob.core.windows.net",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.ssl.keyPassword",
    "spark.ssl.keyStorePw",
    "spark.hadoop.google.cloud.auth.service.account.json.keyfile.data",
)
SECRET_VALUES = (
    "spark.driver.extraJavaOptions=-Djavax.net.ssl.trustStorePassword=abc",
    "spark.jars.repositories=https://me:abc@repo.internal/maven",
    "spark.hive.url=jdbc:mysql://h/db?user=me&pwd=abc",
    "spark.hook=https://h/x?token=abc",
)


def test_config_show_names_the_layer_of_every_value_and_hides_what_may_be_secret(capsys):
    status, out, err = run(
        capsys, "config", "show", "--format", "json", "--set", "role=audit", "--warehouse", "/w",
        *(part for key in SECRET_KEYS for part in ("--set", f"spark.{key}=abc")),
        *(part for value in SECRET_VALUES for part in ("--set", f"spark.{value}")),
        "--set", "spark.spark.sql.shuffle.partitions=7", "--set", "rocketmq.secret_key_env=ABC",
    )  # fmt: skip
    shown = {row["key"]: (row["value"], row["from"]) for row in map(json.loads, out.splitlines())}
    assert (status, err) == (0, "")
    assert shown["role"] == ("audit", "--set")
    assert shown["warehouse"] == ("/w", "--warehouse")
    assert shown["transaction_check_max"] == (15, "base.yaml")
    assert "abc" not in out.lower()
    assert shown["rocketmq.secret_key_env"] == ("(hidden)", "--set")
    assert shown["rocketmq.access_key_env"] == (None, "base.yaml")
    for key in (*SECRET_KEYS, *(value.partition("=")[0] for value in SECRET_VALUES)):
        assert shown[f"spark.{key}"] == ("(hidden)", "--set")
    assert shown["spark.spark.sql.shuffle.partitions"] == ("7", "--set")


def test_help_costs_little_and_imports_nothing_heavy():
    before = os.times()
    for command in ((), ("pending",), ("land", "store"), ("resolve",)):
        assert imported_by(*command, "--help") & HEAVY == set()
    after = os.times()
    # Processor time of three processes, so that a busy machine is no failure; the benchmark holds the real budget.
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    assert spent < 4 * 1.5


def test_views_and_traces_import_neither_spark_nor_pandas(tmp_path):
    for command in (("pending",), ("offsets",), ("trace", "C0")):
        assert imported_by("--warehouse", str(tmp_path), *command) & HEAVY == {"duckdb", "deltalake"}


def test_a_reader_that_leaves_early_is_no_failure():
    code = "import sys; from txmq_lib.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "config", "show", "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, no_color=True, width=width, highlight=False)


def test_a_terminal_gets_the_columns_that_fit_and_is_told_of_the_others(capsys):
    console = terminal(40)
    row = ("C000020246654E0E2F2A6940C2510000", 3, "2026-11-21T10:30:51.730Z")
    write_table(("transaction_id", "n", "check_timestamp"), [row], console)
    shown = console.file.getvalue().splitlines()
    assert [line.split() for line in shown[1:]] == [["C000020246654E0E2F2A6940C2510000", "3"]]
    assert capsys.readouterr().err == "not shown for want of width: check_timestamp\n"


def test_an_id_wider_than_the_terminal_is_folded_and_not_cut():
    console = terminal(20)
    write_table(("transaction_id", "n"), [("C000020246654E0E2F2A6940C2510000", 3)], console)
    assert "".join(line.strip() for line in console.file.getvalue().splitlines()[1:]).replace(" ", "") == (
        "C000020246654E0E2F2A6940C2510000"
    )


def test_free_text_gives_way_before_a_column_is_left_out():
    assert fitting({"reason": 10, "detail": 90, "source": 60, "job": 4}, 10 + 2 + 24 + 2 + 24) == [
        "reason", "detail", "source"
    ]  # fmt: skip
    assert fitting({"transaction_id": 90, "n": 1}, 20) == ["transaction_id"]


def test_csv_quotes_what_needs_it():
    out = io.StringIO()
    assert write_csv(("a", "b", "c", "d"), [('x,"y"\n', None, True, {"k": ["é", 1.5]})], out) == 1
    assert out.getvalue() == 'a,b,c,d\n"x,""y""\n",,true,"{""k"": [""é"", 1.5]}"\n'


def test_the_version_is_that_of_the_package(capsys):
    assert run(capsys, "--version") == (0, f"txmq {metadata.version('txmq')}\n", "")


def test_settings_files_are_found_where_none_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TXMQ_CONF", raising=False)
    assert settings_files({}, Path()) == ()
    Path("txmq.yaml").write_text("role: audit\n")
    Path("other.yaml").write_text("role: engine\ntransaction_check_max: 7\n")
    both = os.pathsep.join(("txmq.yaml", "other.yaml"))
    for variable, options, found_files in (
        (None, (), ("audit", "./txmq.yaml")),
        ("other.yaml", (), ("engine", "other.yaml")),
        (both, (), ("engine", "other.yaml")),
        ("", (), (None, "base.yaml")),
        ("other.yaml", ("--conf", "txmq.yaml"), ("audit", "txmq.yaml")),
    ):
        if variable is None:
            monkeypatch.delenv("TXMQ_CONF", raising=False)
        else:
            monkeypatch.setenv("TXMQ_CONF", variable)
        status, out, _ = run(capsys, *options, "config", "show", "--format", "json")
        shown = {row["key"]: (row["value"], row["from"]) for row in map(json.loads, out.splitlines())}
        assert (status, shown["role"]) == (0, found_files), (variable, options)


def test_a_settings_file_that_the_environment_names_and_is_not_there_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TXMQ_CONF", str(tmp_path / "gone.yaml"))
    status, _, err = run(capsys, "config", "show")
    assert status == 2
    assert f"{tmp_path}/gone.yaml: cannot be read" in err


@pytest.mark.parametrize("start", ["audit", "engine", "live"])
def test_a_settings_file_to_begin_with_is_valid_and_found_and_never_overwritten(start, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TXMQ_CONF", raising=False)
    status, out, _ = run(capsys, "init-config", start)
    assert status == 0
    assert out.splitlines()[1] == "next: txmq doctor, then txmq run, then txmq status"
    settings = Settings.load(settings_files({}, Path()))
    assert settings.role == {"live": "audit"}.get(start, start)
    assert settings.sources
    # What is commented out is valid as well, so that taking a # away is enough.
    text = Path("txmq.yaml").read_text()
    Path("all.yaml").write_text(re.sub(r"^# (?= *\w+:)", "", text, flags=re.MULTILINE))
    values = Settings.load(["all.yaml"]).rows()
    assert sum(layer == "all.yaml" for *_, layer in values) > sum(layer != "base.yaml" for *_, layer in settings.rows())
    status, _, err = run(capsys, "init-config", start)
    assert (status, err) == (2, "error USAGE: txmq.yaml exists and is left as it is; name another file by --out\n")
    assert Path("txmq.yaml").read_text() == text
    status, out, _ = run(capsys, "init-config", start, "--out", "b.yaml")
    assert out.splitlines()[1].startswith("next: txmq --conf b.yaml doctor, ")
