"""The commands that are ended by signals: how each is called, what is there before, and whom it talks to."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import tarfile
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from captured import unpack_store
from deciding_broker import GIVEN_UP, Deciding
from moment import NOW_MS
from remoting_server import answer
from resolving import half
from truth import CAPTURES

from txmq_lib.service.health_file import Health
from txmq_lib.views.catalogue import VIEWS

NOW, LATER = (("--now", f"2026-11-21T{hour}:00:00Z") for hour in (12, 14))
BROKER = ("--broker", "oracle-a")
HALF, END, OP, VISIBLE, MAX_TIME = (
    str(CAPTURES / "restart" / f"{name}.jsonl.gz") for name in ("half", "ends", "op", "visible", "max_time")
)
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

SEND_MESSAGE = 10

# What is there before a command that is ended is begun.
LANDED = (("land", "half", HALF, *BROKER, *NOW), ("land", "end", END, *BROKER, *NOW))
RECONCILED = (*LANDED, ("reconcile", *NOW))
GIVEN_UP_ONES = (*LANDED, *((*GIVING_UP, "reconcile", *now) for now in (NOW, LATER)))
ROLLED = (("land", "offset", OFFSETS, *BROKER, *NOW),)
LIVE = ((*AUDIT, "land", "rocketmq", "--namesrv", "{namesrv}", *NOW),)
LIVE_JUDGED = (*LIVE, (*AUDIT, "audit", *NOW))
TO_BROKER = ("--to-broker", "--namesrv", "{namesrv}", "--apply", *NOW)
UNDECIDED = (("land", "half", "{place}/half.jsonl", *BROKER, *NOW), ("reconcile", *NOW))
HOLD = ("hold", "T0", "T1", "--reason", "an incident", "--apply", *NOW)
PAID = ("T0", "--commit", "--reason", "paid")
UP_AGAIN = ("--all", "--reason", "up again")


def damage(base: Path) -> None:
    """Leave a commit of nobody in a table's log, as a power cut does."""
    log = base / "warehouse" / "half_message" / "_delta_log"
    newest = max(int(entry.stem) for entry in log.glob("*.json"))
    (log / f"{newest + 1:020}.json").touch()


def release(base: Path) -> None:
    """Put the warehouse of a released version there."""
    with tarfile.open(CAPTURES / "warehouses" / "0.1.0.tar.xz") as packed:
        packed.extractall(base, filter="data")


@dataclass(frozen=True)
class Command:
    """A command, and those before it; `{place}` in its arguments is a directory of its own, `{namesrv}` the name server.

    prepare     done after those before it
    may_stop    whether the first signal is a wish to stop, so that it may also end with status 0 and more than one line
    has_end     whether it ends when it is left alone
    sends       whether it tells a broker what to do, which may be told once only
    starts_jvm  whether it needs Spark
    only_reads  whether nothing is left of it, so that there is nothing to carry on
    is_once     whether it leaves alone what it has once made
    """

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    prepare: Callable[[Path], None] | None = None
    may_stop: bool = False
    has_end: bool = True
    sends: bool = False
    starts_jvm: bool = True
    only_reads: bool = False
    is_once: bool = False


def view(*arguments: str, before: tuple[tuple[str, ...], ...] = RECONCILED, has_end: bool = True) -> Command:
    """A command that shows what is there."""
    return Command(arguments, before, has_end=has_end, starts_jvm=False, only_reads=True)


def landing(kind: str, path: str) -> Command:
    """A landing of files."""
    return Command(("land", kind, path, *BROKER, *NOW))


# By the name of each; those that are called in two ways have the second one's option behind it.
COMMANDS = {
    "init": Command(("init",)),
    "land half": landing("half", HALF),
    "land op": landing("op", OP),
    "land message": landing("message", VISIBLE),
    "land max-time": landing("max-time", MAX_TIME),
    "land end": landing("end", END),
    "land trace": landing("trace", "{place}/trace.jsonl"),
    "land offset": landing("offset", OFFSETS),
    "land ack": landing("ack", "{place}/ack.jsonl"),
    "land store": Command((*AUDIT, "land", "store", "{place}/store", *BROKER, *NOW)),
    "land rocketmq": Command(LIVE[0]),
    "reconcile": Command(("reconcile", *NOW), LANDED),
    "resolve": Command((*ASKING, "resolve", *NOW), RECONCILED),
    "resolve --to-broker": Command(
        (*AUDIT, *ASKING, "resolve", *TO_BROKER), (*LIVE, (*AUDIT, "reconcile", *NOW)), sends=True
    ),
    "rollup": Command(("rollup", *NOW), ROLLED),
    "audit": Command(
        (*AUDIT, "audit", *NOW),
        ((*AUDIT, "land", "store", "{place}/store", *BROKER, *NOW), (*AUDIT, "reconcile", *NOW)),
    ),
    "run": Command(("--conf", "{place}/sources.yaml", "run", *NOW)),
    "land sources": Command(("--conf", "{place}/sources.yaml", "land", "sources", *NOW)),
    "maintain": Command(("--set", "maintain.small_files=2", "maintain"), RECONCILED),
    "take-back": Command(("take-back", *BROKER, "--apply"), LANDED),
    "settle": Command((*AUDIT, "settle", *PAID, "--apply", *NOW), LIVE),
    "settle --to-broker": Command((*AUDIT, "settle", *PAID, *TO_BROKER), LIVE, sends=True),
    "resume": Command(("resume", *UP_AGAIN, "--apply", *LATER), GIVEN_UP_ONES),
    "resume --to-broker": Command((*AUDIT, "resume", *UP_AGAIN, *TO_BROKER), LIVE_JUDGED, sends=True),
    "hold": Command(HOLD, UNDECIDED),
    "release": Command(("release", "T0", "T1", "--apply", *LATER), (*UNDECIDED, HOLD)),
    "resend": Command((*AUDIT, "resend", "T2", "--reason", "paid", *TO_BROKER[1:]), LIVE_JUDGED, sends=True),
    "demo": Command(("demo",)),
    "serve": Command(
        ("--conf", "{place}/sources.yaml", "serve", "--now-first", "--health-file", "{place}/health.json"),
        may_stop=True,
        has_end=False,
    ),
    **{each.command: view(each.command, *NOW) for each in VIEWS},
    "trace": view("trace", "T0", before=UNDECIDED),
    "status": view("status", *NOW),
    "status --watch": view("status", "--watch", "0.5", *NOW, has_end=False),
    "groups": view("groups", *NOW, before=ROLLED),
    "producers": view("producers"),
    "report": Command(("report", "--out", "{place}/report.html", *NOW), RECONCILED, starts_jvm=False),
    "metrics": Command(("metrics", "--out", "{place}/metrics.prom", *NOW), RECONCILED, starts_jvm=False),
    "alert": Command((*ALERTING, "alert", *NOW), RECONCILED, starts_jvm=False),
    "doctor": view("doctor", before=LANDED),
    "config show": view("config", "show", before=()),
    "init-config": Command(("init-config", "audit", "--out", "{place}/begin.yaml"), starts_jvm=False, is_once=True),
    "mend": Command(("mend", "--apply"), LANDED, damage, starts_jvm=False),
    "upgrade": Command(("upgrade", "--apply"), prepare=release, starts_jvm=False),
    "wakeup": view("wakeup", "--health-file", "{health}", before=()),
}


class Peers:
    """Whom commands talk to, on loopback: a broker and its name server, a webhook that takes its time, a database."""

    def __init__(self, place: Path) -> None:
        self.broker = Deciding(halves=0)
        self.broker.interrupt = lambda request: answer(request) if request["code"] == SEND_MESSAGE else None
        # This process serves, as far as `wakeup` can tell.
        self.health = place / "serve.json"
        signal.signal(signal.SIGUSR1, lambda *_: None)
        self._serving = Health(self.health, lambda: datetime.now(UTC))
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

    def sent(self) -> list[tuple[int, str]]:
        """Code and transaction of every request that changes what the broker has."""
        requests = [request for request in self.broker.server.requests if request["code"] == SEND_MESSAGE]
        return [*self.broker.sent(), *((SEND_MESSAGE, request["extFields"]["properties"]) for request in requests)]

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
    ended = "\x01".join(["EndTransaction", str(half(0)["bornTimestamp"]), "R", "GID_A", "TopicA", "T0", "t", "k",
                         "10.0.0.1:10911", "2", "T0", "COMMIT_MESSAGE", "false"])  # fmt: skip
    traced = {**half(0), "topic": "RMQ_SYS_TRACE_TOPIC", "bodyBase64": b64encode(f"{ended}\x02".encode()).decode()}
    ack = {"ts": NOW_MS, "group": "G", "topic": "T", "queueId": 0, "clientId": "C", "event": "acked"}
    made = {"half": [half(number) for number in range(3)], "trace": [traced], "ack": [{**ack, "offsets": [0, 1, 2]}]}
    for name, rows in made.items():
        (base / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
