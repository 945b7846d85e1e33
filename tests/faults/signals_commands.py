"""The commands that are ended by signals: how each is called, what is there before, and whom it talks to."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from captured import unpack_store
from deciding_broker import GIVEN_UP, Deciding
from truth import CAPTURES

NOW, LATER = (("--now", f"2026-11-21T{hour}:00:00Z") for hour in (12, 14))
BROKER = ("--broker", "oracle-a")
HALF, END = (str(CAPTURES / "restart" / f"{name}.jsonl.gz") for name in ("half", "ends"))
OFFSETS = str(CAPTURES / "restart" / "config" / "consumerOffset.json")
WEBHOOK, DATABASE = "SIGNALS_WEBHOOK", "SIGNALS_DATABASE"
WEBHOOK_S = 0.3  # it takes its time, so that signals come while it is waited for

AUDIT = ("--set", "role=audit")
ASKING = tuple(
    part
    for group in ("GID_A", "GID_R1", "GID_R2")
    for part in (
        "--set",
        f"resolvers.{group}={{kind: sql, url_env: {DATABASE}, table: log, key_column: id, state_column: state,"
        " commit: [C], rollback: [R]}",
    )
)
GIVING_UP = ("--set", "transaction_check_max=1")
ALERTING = ("--set", f"alerts.url_env={WEBHOOK}", "--set", "thresholds.pending_age=1s")

# What is there before a command that is ended is begun.
LANDED = (("land", "half", HALF, *BROKER, *NOW), ("land", "end", END, *BROKER, *NOW))
RECONCILED = (*LANDED, ("reconcile", *NOW))
GIVEN_UP_ONES = (*LANDED, *((*GIVING_UP, "reconcile", *now) for now in (NOW, LATER)))
ROLLED = (("land", "offset", OFFSETS, *BROKER, *NOW),)
LIVE = ((*AUDIT, "land", "rocketmq", "--namesrv", "{namesrv}", *NOW),)
TO_BROKER = ("--to-broker", "--namesrv", "{namesrv}", "--apply", *NOW)


@dataclass(frozen=True)
class Command:
    """A command, and those before it; `{place}` in its arguments is a directory of its own, `{namesrv}` the name server.

    may_stop    whether the first signal is a wish to stop, so that it may also end with status 0 and more than one line
    has_end     whether it ends when it is left alone
    sends       whether it tells a broker what to do, which may be told once only
    starts_jvm  whether it needs Spark
    """

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    may_stop: bool = False
    has_end: bool = True
    sends: bool = False
    starts_jvm: bool = True


COMMANDS = {
    "init": Command(("init",)),
    "land": Command(("land", "half", HALF, *BROKER, *NOW)),
    "land-store": Command((*AUDIT, "land", "store", "{place}/store", *BROKER, *NOW)),
    "land-rocketmq": Command(LIVE[0]),
    "reconcile": Command(("reconcile", *NOW), LANDED),
    "resolve": Command((*ASKING, "resolve", *NOW), RECONCILED),
    "resolve-to-broker": Command(
        (*AUDIT, *ASKING, "resolve", *TO_BROKER), (*LIVE, (*AUDIT, "reconcile", *NOW)), sends=True
    ),
    "rollup": Command(("rollup", *NOW), ROLLED),
    "audit": Command(
        (*AUDIT, "audit", *NOW),
        ((*AUDIT, "land", "store", "{place}/store", *BROKER, *NOW), (*AUDIT, "reconcile", *NOW)),
    ),
    "run": Command(("--conf", "{place}/sources.yaml", "run", *NOW)),
    "maintain": Command(("--set", "maintain.small_files=2", "maintain"), RECONCILED),
    "take-back": Command(("take-back", *BROKER, "--apply"), LANDED),
    "settle": Command((*AUDIT, "settle", "T0", "--commit", "--reason", "paid", "--apply", *NOW), LIVE),
    "settle-to-broker": Command((*AUDIT, "settle", "T0", "--commit", "--reason", "paid", *TO_BROKER), LIVE, sends=True),
    "resume": Command(("resume", "--all", "--reason", "up again", "--apply", *LATER), GIVEN_UP_ONES),
    "resume-to-broker": Command(
        (*AUDIT, "resume", "--all", "--reason", "up again", *TO_BROKER), (*LIVE, (*AUDIT, "audit", *NOW)), sends=True
    ),
    "demo": Command(("demo",)),
    "serve": Command(
        ("--conf", "{place}/sources.yaml", "serve", "--now-first", "--health-file", "{place}/health.json"),
        may_stop=True,
        has_end=False,
    ),
    "status": Command(("status", "--watch", "0.5", *NOW), RECONCILED, has_end=False, starts_jvm=False),
    "verdicts": Command(("verdicts", *NOW), RECONCILED, starts_jvm=False),
    "report": Command(("report", "--out", "{place}/report.html", *NOW), RECONCILED, starts_jvm=False),
    "metrics": Command(("metrics", "--out", "{place}/metrics.prom", *NOW), RECONCILED, starts_jvm=False),
    "alert": Command((*ALERTING, "alert", *NOW), RECONCILED, starts_jvm=False),
    "doctor": Command(("doctor",), LANDED, starts_jvm=False),
}


class Peers:
    """Whom commands talk to, on loopback: a broker and its name server, a webhook that takes its time, a database."""

    def __init__(self, place: Path) -> None:
        self.broker = Deciding(halves=0)
        self._webhook = ThreadingHTTPServer(("127.0.0.1", 0), _Webhook)
        Thread(target=self._webhook.serve_forever, daemon=True).start()
        database = place / "answers.db"
        with sqlite3.connect(database) as log:
            log.execute("create table log (id text primary key, state text)")
            log.executemany("insert into log values (?, ?)", [("T0", "C"), ("T1", "R")])
        log.close()
        os.environ[WEBHOOK] = f"http://127.0.0.1:{self._webhook.server_port}/"
        os.environ[DATABASE] = f"sqlite:///{database}"

    def begin(self) -> None:
        """Let the broker be as at first: two of its transactions undecided, one given up."""
        self.broker.begin(halves=3)
        self.broker.append(GIVEN_UP, 2)
        self.broker.server.requests.clear()

    def close(self) -> None:
        """Stop listening."""
        self.broker.close()
        self._webhook.shutdown()
        self._webhook.server_close()


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Take it, later."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(WEBHOOK_S)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def write_inputs(base: Path) -> None:
    """The files that commands read, in their directory."""
    store = unpack_store("basic", base / "unpacked")
    store.rename(base / "store")
    sources = [{"kind": kind, "paths": [path], "broker": "oracle-a"} for kind, path in (("half", HALF), ("end", END))]
    (base / "sources.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
