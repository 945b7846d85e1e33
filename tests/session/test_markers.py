"""A marker in every setting that can hold a secret, and a look for it at every place that others may read.

Not looked at: the settings file and the file of `url_file`, which hold them, and the environment of `txmq` itself.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable
from processes import PROC, PROGRAM, Ended, watched
from resolving import half

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not PROC.is_dir(), reason="only Linux tells of processes here"),
]

MARK = re.compile(rb"zq7\w+")
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
}
# Tasks that read live queues find these in their environment, which the same account alone can read.
FOR_TASKS = {b"zq7acl_access", b"zq7acl_secret"}
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
            told = f"{self.path} {self.headers['Authorization']} ".encode()
            for word in self.headers["Authorization"].split()[1:]:
                told += base64.b64decode(word) if word == BASIC else b""
            self.send_response(200 if self.path == "/check" else 500, "zq7hook")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

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


def served(place: Path, environ: dict[str, str]) -> Ended:
    """`txmq serve` until every group was asked about, and the brokers that are not there were tried."""
    health = place / "out" / "health.json"

    def is_done() -> bool:
        if not health.exists():
            return False
        steps = json.loads(health.read_text()).get("steps", {})
        return bool(steps.get("resolve", {}).get("pass_number")) and any(step.get("error") for step in steps.values())

    arguments = ["--conf", str(place / "settings.yaml"), "serve", "--now-first", "--health-file", str(health)]
    return watched(arguments, place, environ, is_to_end=is_done)


def told(place: Path, environ: dict[str, str]) -> dict[str, str]:
    """Output of every command that shows something, by the command."""
    told = {}
    for command in (
        *("config show --format table", "config show --format json", "config show --format csv", "doctor", "status"),
        *("status --format json", "answers --wide", "answers --format json", "passes --format json", "checks --wide"),
        *("quarantine --format json", "trace T0", "report --out out/report.html", "metrics --out out/txmq.prom"),
        *("alert", "--verbose alert", "--set alerts.tries=zq7tries alert", "pending --wide", "landed --format json"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "--conf", str(place / "settings.yaml"), *command.split()],
            cwd=place, env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2, 3), done.stderr
        told[command] = done.stdout + done.stderr
    return told


def test_a_secret_is_in_nothing_that_others_may_read(place: Path, echo: str):
    secrets = {name: value.format(at=echo) for name, value in SECRETS.items()}
    environ = {**os.environ, **secrets, "TMPDIR": str(place / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = served(place, environ)
    assert ended.status == 0 or "127.0.0.1:1" in ended.err, ended.err
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
    shown = told(place, environ)
    assert "ALERT_UNSENT" in shown["alert"]

    searched = {
        "output of serve": (ended.out + ended.err).encode(),
        **{f"output of {command}": words.encode() for command, words in shown.items()},
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
