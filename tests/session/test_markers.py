"""A marker in every setting that can hold a secret, and a look for it at every place that others may read.

Not looked at: the settings file and the file of `url_file`, which hold them, and the environment of `txmq` itself.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from deltalake import DeltaTable
from processes import PROC, PROGRAM, Ended, watched
from resolving import half

from txmq_lib.views.catalogue import VIEWS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not PROC.is_dir(), reason="only Linux tells of processes here"),
]

MARK = re.compile(rb"zq7\w+")
PAGES = ("/", "/health", "/metrics", "/transaction/T0")
GROUPS = ("BY_VARIABLE", "BY_FILE", "UNENCODED", "BY_HTTP", "BY_BASIC")
BASIC = base64.b64encode(b"me:zq7basic").decode()
SECRETS = {
    "SQL_URL": "postgresql+psycopg://me:zq7sql@127.0.0.1:1/log?sslpassword=zq7sslpassword",
    "UNENCODED_URL": "postgresql+psycopg://me:zq7first@zq7second@127.0.0.1:1/log",
    "HTTP_KEY": "Bearer zq7http",
    "BASIC_KEY": f"Basic {BASIC}",
    "HOOK_URL": "{at}/zq7hook",
    "HOOK_KEY": "Bearer zq7hookkey",
    "ACL_ACCESS": "zq7acl_access",
    "ACL_SECRET": "zq7acl_secret",
    "AWS_ACCESS_KEY_ID": "zq7aws_id",
    "AWS_SECRET_ACCESS_KEY": "zq7aws_secret",
    "AWS_SESSION_TOKEN": "zq7aws_token",
    "AZURE_STORAGE_ACCOUNT_KEY": "zq7azure_key",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "zq7google_key",
}
# What the JVM and tasks need is in their environment, which the same account alone can read: keys for live queues, and
# those of object stores.
FOR_TASKS = {value.encode() for value in SECRETS.values() if re.match("zq7(acl|aws|azure|google)", value)}
SETTINGS = r"""
warehouse: {place}/warehouse
role: engine
transaction_timeout: 1s
transaction_check_interval: 1s
thresholds: {{pending: 0, unanswered: 0}}
sources:
  - {{kind: half, broker: broker-a, paths: [{place}/half.jsonl]}}
  - {{kind: rocketmq, namesrv: ["127.0.0.1:1"]}}
rocketmq: {{access_key_env: ACL_ACCESS, secret_key_env: ACL_SECRET}}
alerts: {{url_env: HOOK_URL, headers_env: {{Authorization: HOOK_KEY}}, tries: 1}}
resolvers:
  BY_VARIABLE: {{kind: sql, url_env: SQL_URL, table: log, key_column: id, state_column: state, commit: [C]}}
  BY_FILE: {{kind: sql, url_file: {place}/url, table: log, key_column: id, state_column: state, commit: [C]}}
  UNENCODED: {{kind: sql, url_env: UNENCODED_URL, table: log, key_column: id, state_column: state, commit: [C]}}
  BY_HTTP: {{kind: http, endpoints: ["{at}/check"], headers_env: {{Authorization: HTTP_KEY}}, tries: 1}}
  BY_BASIC: {{kind: http, endpoints: ["{at}/check"], headers_env: {{Authorization: BASIC_KEY}}, tries: 1}}
spark:
  spark.driver.memory: 1g
  spark.sql.shuffle.partitions: 1
  spark.hadoop.fs.s3a.access.key: zq7access
  spark.hadoop.fs.s3a.secret.key: zq7secret
  spark.hadoop.fs.s3a.session.token: zq7token
  spark.hadoop.google.cloud.auth.service.account.json.keyfile.data: zq7keyfile
  spark.hadoop.fs.gs.auth.service.account.private.key: zq7gs
  spark.hadoop.fs.s3a.bucket.b.secret.key: zq7bucket
  spark.hadoop.fs.s3a.encryption.key: zq7encryption
  spark.hadoop.fs.s3a.proxy.password: zq7proxy
  spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net: zq7account
  spark.hadoop.fs.azure.account.oauth2.client.secret: zq7oauth
  spark.hadoop.fs.azure.sas.fixed.token.me: zq7sas
  spark.executorEnv.AWS_SECRET_ACCESS_KEY: zq7executor
  spark.executorEnv.PGPASSWORD: zq7pg
  spark.ssl.keyStorePw: zq7pw
  spark.hadoop.javax.jdo.option.ConnectionURL: jdbc:mysql://127.0.0.1:1/db?user=me&pwd=zq7pwd
  spark.jars.repositories: https://me:zq7repository@127.0.0.1:1/maven
  spark.driver.defaultJavaOptions: -Djavax.net.ssl.trustStorePassword=zq7default
  spark.driver.extraJavaOptions: -Djavax.net.ssl.keyStorePassword=zq7extra -XX:TieredStopAtLevel=1
  spark.eventLog.enabled: true
  spark.eventLog.dir: file://{place}/events
  spark.eventLog.compress: false
  spark.ui.enabled: true
"""


@pytest.fixture
def echo() -> Iterator[str]:
    """An endpoint that tells whoever asks what it was asked with: no state to a check, and no success to a webhook."""

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            words = f"{self.path} {self.headers['Authorization']} ".encode()
            for word in self.headers["Authorization"].split()[1:]:
                words += base64.b64decode(word) if word == BASIC else b""
            self.send_response(200 if self.path == "/check" else 500, "zq7hook")
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(tmp_path: Path, echo: str) -> Path:
    """What `serve` needs: settings, a file with a URL, and a half message of each group."""
    for name in ("events", "tmp", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "settings.yaml").write_text(SETTINGS.format(place=tmp_path, at=echo), encoding="utf-8")
    (tmp_path / "url").write_text("postgresql+psycopg://me:zq7file@127.0.0.1:1/log", encoding="utf-8")
    born = int(time.time() * 1000) - 60_000
    rows = [
        {**half(number, group), "bornTimestamp": born, "storeTimestamp": born} for number, group in enumerate(GROUPS)
    ]
    (tmp_path / "half.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def served(place: Path, environ: dict[str, str]) -> tuple[Ended, dict[str, bytes]]:
    """`txmq serve` until every group was asked about, and the brokers that are not there were tried.

    Beside how it ended, what it answered and left while it ran: pages, marks of runs.
    """
    health, port = place / "out" / "health.json", free_port()
    found: dict[str, bytes] = {}

    def is_done() -> bool:
        if not health.exists():
            return False
        found.update({f"while it ran, {mark.name}": mark.read_bytes() for mark in place.glob("warehouse/_runs/*")})
        steps = json.loads(health.read_text()).get("steps", {})
        is_last = bool(steps.get("resolve", {}).get("pass_number"))
        if is_last and any(step.get("error") for step in steps.values()):
            found.update({f"page {path}": page(port, path) for path in PAGES if f"page {path}" not in found})
            return True
        return False

    listening = ["serve", "--now-first", "--health-file", str(health), "--listen", str(port)]
    ended = watched(["--conf", str(place / "settings.yaml"), *listening], place, environ, is_to_end=is_done)
    return ended, found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def page(port: int, path: str) -> bytes:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return bytes(response.read())
    except HTTPError as response:  # /health of what fails
        with response:
            return bytes(response.read())


BROKERS = "--namesrv 127.0.0.1:1"
SHOWING = (
    *("config show --format table", "config show --format json", "config show --format csv", "doctor", "status"),
    *("status --format json", "answers --wide", "answers --format json", "passes --format json", "checks --wide"),
    *("quarantine --format json", "trace T0", "report --out out/report.html", "metrics --out out/txmq.prom"),
    *("alert", "--verbose alert", "--set alerts.tries=zq7tries alert", "pending --wide", "landed --format json"),
    "runs --format json",
)
MORE = (
    *("groups", "producers", "doctor --format json", "mend", "upgrade", "init-config audit --out out/begin.yaml"),
    *("settle T0 --commit --reason r", "resume --all", "hold T0 --reason r", "release T0", "wakeup"),
    # These start a JVM: what is recorded, and sent to brokers that are not there.
    *("hold T0 --reason r --apply", f"--verbose land rocketmq {BROKERS}"),
    f"--verbose resend T0 --reason r {BROKERS} --apply",
    *(f"{view.command} --format json" for view in VIEWS),
)


def told(place: Path, environ: dict[str, str], commands: Iterable[str]) -> dict[str, str]:
    """Output of commands, by the command; TXMQ_CONF names the settings."""
    outputs = {}
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command.split()],
            cwd=place, env={**environ, "TXMQ_CONF": str(place / "settings.yaml")},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2, 3), done.stderr
        outputs[command] = done.stdout + done.stderr
    return outputs


IN_A_NOTEBOOK = """
import sys, traceback
import txmq_lib as txmq

def shown(work):
    try:
        print(work())
    except Exception:
        print(traceback.format_exc())

opened = txmq.open(sys.argv[1])
for each in (opened, opened.settings, opened.settings.spark.keys(), vars(opened), opened.trace("T0")):
    print(each, repr(each))
for view in ("answers", "passes", "runs", "checks", "quarantine"):
    print(list(opened.view(view)), opened.view(view).arrow().to_pylist(), opened.view(view))
shown(lambda: opened.view("nothing"))
shown(lambda: opened.pending(state="zq"))
shown(lambda: txmq.open(sys.argv[1], settings=["spark.spark.hadoop.fs.s3a.secret.key=[zq7inside"]))
shown(lambda: txmq.open(sys.argv[1], settings=["alerts.tries=zq7tries", "rocketmq.secret_key_env=zq7mistaken"]))
shown(lambda: txmq.open(sys.argv[1], warehouse="s3a://KEY:zq7/SECRET@bucket/x"))
shown(lambda: txmq.open(sys.argv[1], warehouse="/nowhere").pending().count())
shown(lambda: opened.run())
"""


def in_a_notebook(place: Path, environ: dict[str, str]) -> str:
    """What the interface for Python shows, its exceptions too."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK, str(place / "settings.yaml")],
        cwd=place, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Traceback") >= 5, done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_secret_is_in_nothing_that_others_may_read(place: Path, echo: str, is_whole: bool):
    """is_whole  with every view, decision and sending, and the interface for Python"""
    secrets = {name: value.format(at=echo) for name, value in SECRETS.items()}
    environ = {**os.environ, **secrets, "TMPDIR": str(place / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended, meanwhile = served(place, environ)
    assert ended.status == 0 or "127.0.0.1:1" in ended.err, ended.err
    shown = told(place, environ, (*SHOWING, *MORE) if is_whole else SHOWING)
    if is_whole:
        shown["notebook"] = in_a_notebook(place, environ)
    tables = {
        path.name: repr(DeltaTable(str(path)).to_pyarrow_table().to_pylist())
        for path in sorted((place / "warehouse").iterdir())
        if path.is_dir() and DeltaTable.is_deltatable(str(path))
    }
    # All that was to be seen was there to be seen.
    assert all(group in tables["check_answer"] for group in GROUPS)
    assert "no state of a local transaction" in tables["check_answer"]
    assert any(b"SparkSubmit" in arguments for arguments in ended.seen.arguments)
    assert any((place / "events").iterdir())
    assert "ALERT_UNSENT" in shown["alert"]
    assert all("127.0.0.1:1" in words for command, words in shown.items() if BROKERS in command)
    assert {f"page {path}" for path in PAGES} < meanwhile.keys(), "marks of runs too"
    runs = {*re.findall(r"'command': '([^']*)'", tables["run"])}
    assert any(run.startswith("serve") for run in runs), (
        "where the table is slow, its own row is left and its rounds' is there"
    )
    assert not is_whole or {"hold", "resend --to-broker"} <= runs

    searched = {
        "output of serve": (ended.out + ended.err).encode(),
        **{f"output of {command}": words.encode() for command, words in shown.items()},
        **meanwhile,
        **{f"table {name}": rows.encode() for name, rows in tables.items()},
        "arguments": b"\n".join(ended.seen.arguments),
        **{
            str(path.relative_to(place)): path.read_bytes()
            for path in place.rglob("*")
            if path.is_file() and path.name not in ("settings.yaml", "url")
        },
    }
    environments = {"environment of a child": set(MARK.findall(b"\n".join(ended.seen.children))) - FOR_TASKS}
    found = {where: set(MARK.findall(content)) for where, content in searched.items()} | environments
    leaks = {where: marks for where, marks in found.items() if marks}
    assert leaks == {}, leaks
    assert [where for where, content in searched.items() if BASIC.encode() in content] == []
    assert {"out/health.json", "out/report.html", "out/txmq.prom", "arguments", "table pass"} <= searched.keys()
