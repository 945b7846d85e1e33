"""The demo: stores of real brokers landed, reconciled, rolled up and audited, and what that shows. Needs Spark."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from txmq_lib import names
from txmq_lib.cli.options import Options, settings_of
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_stories
from txmq_lib.cli.output.tables import write_table
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.passes import spark_warehouse, stopping_spark
from txmq_lib.cli.run.recorded import recorded
from txmq_lib.config.resources import conf_dir, demo_consumer_store, demo_polled_offsets, demo_store
from txmq_lib.config.settings import Settings
from txmq_lib.errors import InputError, UsageError
from txmq_lib.files.scratch import scratch
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.land.job import run_land_files, run_land_store
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.rollup.job import run_rollup
from txmq_lib.views.advice import MEANING
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows
from txmq_lib.views.story import Row
from txmq_lib.views.trace import trace

# Later than anything in the shipped store, so that the demo tells the same today and in a year.
DEMO_NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DEMO_BROKER, CONSUMERS_BROKER = "oracle-a", "oracle-b"
DEMO_WAREHOUSE = "demo-warehouse"
MARK = ".txmq-demo"
LISTED = 20
COLUMNS = (
    *("transaction_id", "producer_group", "verdict", "broker_check_times", "visible_count", "op_count"),
    "given_up_count",
)

SETTINGS_FILE = "txmq.yaml"
MOST_TELLING = (names.COMMITTED_AND_DISCARDED, *names.ENDED_TWICE, names.DISCARDED, *names.VERDICTS)


def run_demo(options: Options) -> None:
    """Do all of it in a fresh local warehouse and tell what came of it."""
    directory = local_directory(options.warehouse or DEMO_WAREHOUSE)
    conf, assignments = (*options.conf, str(conf_dir() / "few-rows.yaml")), (*options.assignments, "role=audit")
    settings = settings_of(Options(conf, assignments, str(directory)))
    make_fresh(directory)
    # Without it a later command would take the role `engine`, and plan what only the broker can do.
    (directory / SETTINGS_FILE).write_text(f"role: audit\nwarehouse: {json.dumps(str(directory))}\n", encoding="utf-8")
    begun = wall_clock()
    with tempfile.TemporaryDirectory(dir=scratch()) as place:
        run_all(settings, Path(place))
    seconds = (wall_clock() - begun).total_seconds()
    say(f"The stores of two RocketMQ brokers, landed, reconciled, rolled up and audited in {seconds:.0f} s")
    say()
    reader = WarehouseReader(str(directory))
    rows = verdict_rows(reader)
    tell_findings(reader, rows)
    tell_next(directory, rows)


def local_directory(uri: str) -> Path:
    """Where the demo keeps its tables; UsageError for anything but a local directory."""
    if "://" in uri.removeprefix("file://"):
        raise UsageError(f"demo keeps its tables in a local directory, not at {uri}")
    return Path(uri.removeprefix("file://")).absolute()


def make_fresh(directory: Path) -> None:
    """Empty the directory of an earlier demo, or make one; UsageError where somebody else's files are in it."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"demo: {directory} is no directory; name another one with --warehouse")
    if (directory / MARK).exists():
        shutil.rmtree(directory)
    elif directory.exists() and any(directory.iterdir()):
        raise UsageError(f"demo: {directory} holds files that no demo made; name another directory with --warehouse")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARK).write_text("made by txmq demo, which may delete this directory\n", encoding="utf-8")


def unpacked(archive: Path, into: Path) -> Path:
    """The store directory (the one with a commitlog) of a packed store; `into` is made."""
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    for commit_log in into.rglob("commitlog"):
        return commit_log.parent
    raise InputError(f"{archive} holds no commitlog directory; install txmq again")


def reports(polled: Path, into: Path) -> Path:
    """What a broker held of its consumer groups as a file that lands: values that are set, so that they may go back."""
    with gzip.open(polled, "rt", encoding="utf-8") as lines, into.open("w", encoding="utf-8") as file:
        for row in map(json.loads, lines):
            if row["brokerOffset"] >= 0:  # below: none yet
                report = {name: row[name] for name in ("ts", "group", "topic", "queueId")}
                file.write(json.dumps({**report, "offset": row["brokerOffset"], "increaseOnly": False}) + "\n")
    return into


def run_all(settings: Settings, place: Path) -> None:
    """Land, reconcile, roll up and audit in one session; each leaves a row in `run`, as its command does.

    place  an empty directory for what lands
    """
    stores = {DEMO_BROKER: demo_store(), CONSUMERS_BROKER: demo_consumer_store()}
    polled = reports(demo_polled_offsets(), place / "offsets.jsonl")
    with stopping_spark(), spark_warehouse("demo", settings) as (warehouse, progress):
        steps: list[tuple[str, str, Callable[..., PassReport]]] = [
            *(
                ("landing the stores", "land store", partial(run_land_store, path=path, broker_name=name))
                for name, path in ((name, str(unpacked(store, place / name))) for name, store in stores.items())
            ),
            (
                "landing consumer offsets",
                "land offset",
                partial(run_land_files, kind="offset", paths=[str(polled)], broker_name=CONSUMERS_BROKER),
            ),
            ("reconciling", "reconcile", run_reconcile),
            ("rolling offsets up", "rollup", run_rollup),
            ("auditing", "audit", run_audit),
        ]
        for label, command, step in steps:
            progress.step(label)
            with recorded(command, settings) as run:
                run.spark = warehouse.spark
                run.step(command, step(warehouse, settings, now=DEMO_NOW, wall_clock=wall_clock))


def verdict_rows(reader: WarehouseReader) -> list[Row]:
    """Every verdict, the newest first."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in view_rows(reader, VERDICTS, ViewQuery(), columns=COLUMNS)]


def tell_findings(reader: WarehouseReader, rows: Sequence[Row]) -> None:
    """Counts per verdict, the given-up and the contradicting transactions, and one story."""
    counts = Counter(row["verdict"] for row in rows)
    say(f"Verdicts of {len(rows)} transactions")
    write_table(
        ("verdict", "count", "meaning"), [(name, counts[name], MEANING[name]) for name in MEANING if counts[name]]
    )
    given_up = [row for row in rows if row["given_up_count"]]
    tell_some("Given up", given_up, ("transaction_id", "producer_group", "verdict", "broker_check_times"))
    contradicted = [row for row in rows if row["verdict"] in names.ENDED_TWICE]
    columns = ("transaction_id", "producer_group", "verdict", "visible_count", "op_count")
    tell_some("Decided more than once", contradicted, columns)
    example = most_telling(rows)
    if example is not None:
        say()
        say(f"One story ({example['verdict']}: {MEANING[example['verdict']]})")
        found = example["transaction_id"]
        write_stories([(found, story) for story in trace(reader, found)])


def tell_some(title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Some transactions, the first of them by name."""
    first = f", the first {LISTED}" if len(rows) > LISTED else ""
    say()
    say(f"{title}: {len(rows)} transactions{first}")
    write_table(columns, [[row[name] for name in columns] for row in rows[:LISTED]])


def most_telling(rows: Sequence[Row]) -> Row | None:
    """The transaction whose story shows most; None where there is none."""
    return min(rows, key=lambda row: MOST_TELLING.index(row["verdict"]), default=None)


def tell_next(directory: Path, rows: Sequence[Row]) -> None:
    """Where the tables are and what to try."""
    shown = directory.relative_to(Path.cwd()) if directory.is_relative_to(Path.cwd()) else directory
    txmq = f"{program()} --conf {shown / SETTINGS_FILE}"
    say()
    say(f"The tables are in {directory}.")
    # The newest come first, and so the oldest last.
    stuck = next((row for row in reversed(rows) if row["verdict"] in names.GIVEN_UP_IN_A_ROW), None)
    if stuck is not None:
        say("Which messages are stuck, of all groups and of one; why is this one, and what to do:")
        for command in (
            "verdicts --state stuck",
            f"verdicts --state stuck --group {stuck['producer_group']}",
            f"trace {stuck['transaction_id']}",
        ):
            say(f"  {txmq} {command}")
    say("Try next:")
    for command in (
        "status",
        "runs",
        "report --out report.html",
        "verdicts --state conflict",
        "groups",
        "offsets --group CG_RESET",
        "messages --limit 5 --format json",
        f"audit --now {DEMO_NOW:%Y-%m-%dT%H:%M:%SZ}",
    ):
        say(f"  {txmq} {command}")


def program() -> str:
    """How this program can be called again from here."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "txmq" and shutil.which("txmq") is None else "txmq"
