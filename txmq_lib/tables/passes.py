"""A pass as a recorded plan: pinned inputs, each write exactly once, the committed row last (design section 4)."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.errors import PassConflict, PassReplayed, PlanInputsGone
from txmq_lib.names import JOB_MAINTAIN, JOB_TAKE_BACK
from txmq_lib.schemas import table_spec, table_specs
from txmq_lib.settings import Settings
from txmq_lib.tables.conform import conform, struct_type
from txmq_lib.tables.delta_log import DeltaLogView, TaggedCommit
from txmq_lib.tables.effort import little_effort
from txmq_lib.tables.local_frame import local_frame
from txmq_lib.tables.warehouse import Warehouse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STARTED, COMMITTED, ABANDONED = "started", "committed", "abandoned"
WRITE_ATTEMPTS = 5
FEW_BYTES = 4 << 20
CONFLICTS = (  # in Python they have no common base
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
PLANNED = re.compile(rf"txmq/([^/]+)/pass/{STARTED}")
TXN_CONF = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
TAG_CONF = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class PassReport:
    """What one pass did: rows written per step, other counts, wall seconds per step; sentences people should read."""

    job: str
    number: int
    counts: dict[str, int]
    seconds: dict[str, float]
    findings: tuple[str, ...] = ()


@dataclass
class Pass:
    """One planned pass of one job. Everything it writes must be a pure function of what is recorded here."""

    warehouse: Warehouse
    job: str
    number: int
    now: datetime
    input_versions: dict[str, int]
    since_versions: dict[str, int]
    arguments: dict[str, Any]
    settings: Settings
    is_own: bool
    wall_clock: Callable[[], datetime]
    plan_id: str = ""
    last_note: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)
    _own_versions: dict[str, list[int]] = field(default_factory=dict)
    _open_at_version: int = -1
    _lost_feeds: frozenset[str] = frozenset()

    def read(self, table: str) -> DataFrame:
        """All rows of the table as the plan saw it."""
        return self.warehouse.read(table, self.input_versions[table])

    def new_rows(self, table: str) -> DataFrame:
        """Rows landed since the last committed pass of this job and not taken back, as the plan saw them."""
        since, upto = self.known_to(table), self.input_versions[table]
        gone: list[tuple[int, str]] = []
        if since is not None and since < upto:
            gone = _taken_back(self.warehouse.log(table), table, since, upto)
        return self.warehouse.rows_between(table, since, upto, taken_back=gone)

    def known_to(self, table: str) -> int | None:
        """The version up to which the last committed pass of this job knew the table; None: it is read whole."""
        return None if table in self._lost_feeds else self.since_versions.get(table)

    def has_new_rows(self, table: str) -> bool:
        """False where the table has not moved since the last committed pass of this job."""
        return (self.known_to(table) or 0) < self.input_versions[table]

    def new_bytes(self, tables: Iterable[str]) -> int | None:
        """Bytes that landed in `tables` since the last committed pass of this job; None where the logs do not tell."""
        sizes = [
            self.warehouse.log(table).bytes_between(self.known_to(table) or 0, self.input_versions[table])
            for table in tables
            if self.has_new_rows(table)
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def cached(self, frame: DataFrame) -> DataFrame:
        """`frame`, computed once and kept until the pass ends: what several steps read is planned and read once."""
        if self.warehouse.is_on_one_machine:
            # Cuts the plan as well, which is what a small pass spends its time on. No executor can be lost with it.
            return frame.localCheckpoint(eager=False)
        self._kept.append(frame.persist())
        return self._kept[-1]

    def release(self) -> None:
        """Let go of what `cached` kept."""
        while self._kept:
            self._kept.pop().unpersist()

    def append(self, table: str, frame: DataFrame, *, step: str, has_rows: bool | None = None) -> int:
        """Append `frame` once; the rows written. An empty frame makes no commit; `has_rows` spares looking."""

        def write() -> None:
            writer = conform(frame, table_spec(table)).write.format("delta").mode("append")
            writer.options(**self._txn_options(table, step)).save(self.warehouse.path(table))

        return self._write_once(table, step, write, is_empty=_emptiness(frame, has_rows))

    def overwrite(self, table: str, frame: DataFrame, *, step: str, where: str | None = None) -> int:
        """Replace the table's rows (those that satisfy `where`, a partition condition) by `frame`, once."""

        def write() -> None:
            writer = conform(frame, table_spec(table)).write.format("delta").mode("overwrite")
            if where is not None:
                writer = writer.option("replaceWhere", where)
            writer.options(**self._txn_options(table, step)).save(self.warehouse.path(table))

        return self._write_once(table, step, write)

    def upsert(
        self,
        table: str,
        frame: DataFrame,
        *,
        step: str,
        only_if: str | None = None,
        has_rows: bool | None = None,
    ) -> int:
        """MERGE `frame` on the table's key (null-safe), once; `has_rows` spares looking.

        `only_if` (on target t and source s) lets a match be updated.
        """
        spec = table_spec(table)
        on = " and ".join(f"t.{name} <=> s.{name}" for name in spec.key)

        def write() -> None:
            target = DeltaTable.forPath(self.warehouse.spark, self.warehouse.path(table)).alias("t")
            merge = target.merge(conform(frame, spec).alias("s"), on)
            with self._txn_conf(table, step):
                merge.whenMatchedUpdateAll(only_if).whenNotMatchedInsertAll().execute()

        return self._write_once(table, step, write, is_empty=_emptiness(frame, has_rows))

    def delete(self, table: str, broker_name: str, *, step: str) -> int:
        """Delete all rows of a broker, once; the rows deleted. No rows make no commit."""
        rows = F.col("broker_name") == broker_name

        def write() -> None:
            # The commit names the broker: a change feed still gives the rows that came before it.
            with self._txn_conf(table, step, note={"broker_name": broker_name}):
                DeltaTable.forPath(self.warehouse.spark, self.warehouse.path(table)).delete(rows)

        return self._write_once(table, step, write, is_empty=lambda: self.warehouse.read(table).where(rows).isEmpty())

    def is_settled(self, tables: Iterable[str]) -> bool:
        """True where none of `tables` has moved since the last committed pass of this job, nor a setting."""
        is_same = self.last_note.get("settings_fingerprint") == self.settings.fingerprint()
        return is_same and not any(self.has_new_rows(table) for table in tables)

    @property
    def has_written(self) -> bool:
        """Whether anything of this plan may be in a table, as far as this process knows."""
        return not self.is_own or bool(self._own_versions)

    def has_landed(self, table: str, step: str) -> bool:
        """Whether this write of the plan is in the table already."""
        return self.warehouse.log(table).txn_version(_app_id(self.job, table, step)) >= self.number

    def commit(
        self,
        counts: Mapping[str, int] | None = None,
        checkpoints: Mapping[str, int] | None = None,
        next_due_ms: int | None = None,
    ) -> PassReport:
        """Write the committed row, last of all; `next_due_ms` tells the next pass when time alone gives it work."""
        self._require_open()
        self.counts.update(counts or {})
        # Kept in the commit's note: the next pass of this job reads it without a Spark job.
        note = {
            "input_versions": self.input_versions,
            "own_versions": self._own_versions,
            "settings_fingerprint": self.settings.fingerprint(),
            "next_due_ms": next_due_ms,
        }
        _append_pass_row(self, COMMITTED, checkpoints or {}, note)
        return PassReport(self.job, self.number, dict(self.counts), dict(self.seconds))

    def gone_inputs(self) -> list[str]:
        """Tables that can no longer be read as the plan saw them."""
        logs = {name: self.warehouse.log(name) for name in self.input_versions}
        return [name for name, log in logs.items() if not log.is_readable(self.input_versions[name])]

    def has_landed_nothing(self) -> bool:
        """True where no write of this plan, by whatever process, is in a table."""
        ours = _app_id(self.job, "", "").removesuffix("/")
        written = [self.warehouse.log(name).txn_versions() for name in self.input_versions]
        return not any(
            app_id.startswith(ours) and version >= self.number
            for versions in written
            for app_id, version in versions.items()
        )

    def abandon(self) -> None:
        """Give the plan up for good: its inputs are gone. What it wrote stays, landing again adds what is missing."""
        _append_pass_row(self, ABANDONED, {}, {})

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Wall seconds of a step, into the pass log."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - begun

    def _txn_options(self, table: str, step: str) -> dict[str, Any]:
        return {
            "txnAppId": _app_id(self.job, table, step),
            "txnVersion": self.number,
            "userMetadata": self.tag(step),
        }

    def tag(self, step: str) -> str:
        """What the commit of a step carries: whose it is, and by which plan."""
        return f"{_pass_tag(self.job, self.number, step)} {self._plan_digest}"

    @cached_property
    def _plan_digest(self) -> str:
        plan = [
            str(self.now.astimezone(UTC)),
            sorted(self.input_versions.items()),
            sorted(self.since_versions.items()),
            json.dumps(self.arguments, sort_keys=True),
            self.settings.to_json(),
            self.plan_id,
        ]
        return hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:16]

    @contextmanager
    def _txn_conf(self, table: str, step: str, *, note: Mapping[str, Any] | None = None) -> Iterator[None]:
        # MERGE and DELETE take the two keys from the session only; left behind they would silence other writes.
        conf = self.warehouse.spark.conf
        tag = self.tag(step) if note is None else self.tag(step) + "\n" + json.dumps(note)
        values = (_app_id(self.job, table, step), str(self.number), tag)
        try:
            for key, value in zip((*TXN_CONF, TAG_CONF), values, strict=True):
                conf.set(key, value)
            yield
        finally:
            for key in (*TXN_CONF, TAG_CONF):
                conf.unset(key)

    def _write_once(
        self, table: str, step: str, write: Callable[[], None], is_empty: Callable[[], bool] | None = None
    ) -> int:
        with self.timed(step):
            self._require_open()
            # Nothing of a plan of our own can have landed; should another process carry it on, Delta's check decides.
            if self.is_own or not self.has_landed(table, step):
                if is_empty is not None and is_empty():
                    self.counts[step] = 0
                    return 0
                self._write_through_conflicts(table, step, write)
            commit = self._landed_commit(table, step)
        self.counts[step] = commit.rows if commit is not None else 0
        if commit is not None:
            self._own_versions.setdefault(table, []).append(commit.version)
        self.warehouse.on_write(table, step)
        return self.counts[step]

    def _landed_commit(self, table: str, step: str) -> TaggedCommit | None:
        """The commit of a step by this plan, or None where the step had nothing to write.

        Delta skips a number it knows without a word: were that number another plan's, rows would be lost in silence.
        """
        log = self.warehouse.log(table)
        commit = log.tagged_commit(self.tag(step), after=self.input_versions[table])
        if commit is None and log.txn_version(_app_id(self.job, table, step)) >= self.number:
            raise PassReplayed(
                f"{self.job} pass {self.number}: {table} holds step {step} of a pass {self.number} with another plan;"
                " the tables and the pass log are not of one moment: restore all of the warehouse to the same one"
            )
        return commit

    def _require_open(self) -> None:
        # Its inputs looked gone to another process: what that one landed instead must not land twice.
        log = self.warehouse.log("pass")
        if log.version == self._open_at_version:
            return
        if log.txn_version(_app_id(self.job, "pass", ABANDONED)) >= self.number:
            raise PassConflict(f"{self.job} pass {self.number} was given up by another process; run it again")
        self._open_at_version = log.version

    def _write_through_conflicts(self, table: str, step: str, write: Callable[[], None]) -> None:
        for _ in range(WRITE_ATTEMPTS):
            try:
                return write()
            except CONFLICTS:
                # Somebody carries the same plan on, or another job wrote the table: look, then try again.
                if self.has_landed(table, step):
                    return None
        raise PassConflict(
            f"{self.job} pass {self.number}: {table} was written by others {WRITE_ATTEMPTS} times; try again"
        )


def next_pass(
    warehouse: Warehouse,
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
) -> Pass:
    """The job's unfinished pass, else a new one without a plan row: it may be computed, never written."""
    warehouse.ensure()
    log = warehouse.log("pass")
    planned, ended = log.txn_version(_app_id(job, "pass", STARTED)), _ended(log, job)
    if planned > ended:
        return _load_pass(warehouse, job, planned, wall_clock=wall_clock)
    last_note = _note_of(warehouse, log, job, log.txn_version(_app_id(job, "pass", COMMITTED)))
    logs = _logs(warehouse)
    mine = _unplanned(warehouse, logs, job, now=now, arguments=arguments, settings=settings, wall_clock=wall_clock)
    return replace(mine, number=planned + 1, since_versions=_since(logs, last_note), last_note=last_note)


def preview(
    warehouse: Warehouse,
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
) -> Pass:
    """A pass over the tables as they are, without a number or a past: to be computed and looked at, never written."""
    logs = _logs(warehouse)
    return _unplanned(warehouse, logs, job, now=now, arguments=arguments, settings=settings, wall_clock=wall_clock)


def _logs(warehouse: Warehouse) -> dict[str, DeltaLogView]:
    return {name: warehouse.existing_log(name) for name in table_specs() if name != "pass"}


def _unplanned(
    warehouse: Warehouse,
    logs: Mapping[str, DeltaLogView],
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
) -> Pass:
    return Pass(
        warehouse=warehouse,
        job=job,
        number=0,
        now=now,
        input_versions={name: log.version for name, log in logs.items()},
        since_versions={},
        arguments=dict(arguments),
        settings=settings,
        is_own=True,
        wall_clock=wall_clock,
    )


@dataclass(frozen=True)
class Standing:
    """Where a job stands: its unfinished pass (None: it has none), what that one reads, and what the job knows."""

    job: str
    open_number: int | None
    input_versions: dict[str, int]
    since_versions: dict[str, int]


def standings(warehouse: Warehouse) -> list[Standing]:
    """Where every job stands that ever planned a pass."""
    log = warehouse.log("pass")
    started = [PLANNED.fullmatch(app_id) for app_id in log.txn_versions()]
    return [_standing(warehouse, log, found[1]) for found in started if found]


def _standing(warehouse: Warehouse, log: DeltaLogView, job: str) -> Standing:
    planned = log.txn_version(_app_id(job, "pass", STARTED))
    if planned > _ended(log, job):
        row = _plan_row(warehouse, job, planned)
        return Standing(job, planned, dict(row["input_versions"]), dict(row["since_versions"]))
    note = _note_of(warehouse, log, job, log.txn_version(_app_id(job, "pass", COMMITTED)))
    logs = {name: warehouse.log(name) for name in note.get("input_versions", {})}
    return Standing(job, None, {}, _since(logs, note))


def run_passes(
    warehouse: Warehouse,
    job: str,
    work: Callable[[Pass], PassReport],
    *,
    now: datetime,
    settings: Settings,
    wall_clock: Callable[[], datetime],
    arguments: Callable[[], Mapping[str, Any]] = dict,
    is_idle: Callable[[Pass], bool] | None = None,
    input_bytes: Callable[[Pass], int | None] | None = None,
    lands_again: bool = False,
) -> PassReport:
    """Carry unfinished passes of others on, then one of our own; the report of our own.

    `arguments` are asked for anew before each pass. Where `is_idle` says that our own would find nothing to do, it
    leaves no trace and its report counts `idle`. `input_bytes` tells how much there is to work on, None for much. An
    unfinished pass whose inputs are gone is abandoned where nothing of it has landed, or where the job does only what
    is missing (`lands_again`); else PlanInputsGone.
    """
    while True:
        current = next_pass(warehouse, job, now=now, arguments=arguments(), settings=settings, wall_clock=wall_clock)
        if current.is_own:
            if is_idle is not None and is_idle(current):
                return PassReport(job, 0, {"idle": 1}, {})
            current = _planned(current)
        elif gone := current.gone_inputs():
            if not lands_again and not current.has_landed_nothing():
                raise PlanInputsGone(
                    f"{job} pass {current.number} is unfinished, and {', '.join(gone)} can no longer be read as it was"
                    " when the pass was planned; put back a copy of the warehouse from before that pass"
                )
            current.abandon()
            continue
        size = input_bytes(current) if input_bytes is not None else None
        try:
            with little_effort(warehouse.spark, when=size is not None and size <= FEW_BYTES):
                report = work(current)
        except (PassConflict, PassReplayed):
            raise
        except Exception:
            # A plan that cannot be carried out must not stand in the way of the next one.
            if not current.has_written:
                current.abandon()
            raise
        finally:
            current.release()
        if current.is_own:
            return report


def _planned(mine: Pass) -> Pass:
    """`mine` once its plan has landed, or the plan of its number that another process landed first."""
    plan_id = f"{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}:{mine.wall_clock().isoformat()}"
    mine.plan_id = plan_id
    _append_pass_row(mine, STARTED, {}, {"plan_id": plan_id})
    # Delta skips a second plan of this number without a word, so look whose plan landed.
    log = mine.warehouse.log("pass")
    landed = log.tagged_commit(_pass_tag(mine.job, mine.number, STARTED))
    if landed is not None and json.loads(landed.note)["plan_id"] == plan_id:
        if in_the_way := _in_the_way(mine.job, log):
            mine.abandon()
            raise PassConflict(f"{mine.job} cannot run now: {in_the_way} is unfinished; end it first, then try again")
        return mine
    return _load_pass(mine.warehouse, mine.job, mine.number, wall_clock=mine.wall_clock)


def _in_the_way(job: str, log: DeltaLogView) -> str:
    """An unfinished pass beside which a pass of `job` must not be; empty where there is none.

    Rows that are taken back must not be read meanwhile. Both sides look after their plan has landed, so that one of
    two that begin at once sees the other.
    """
    meet = {other: number for other, number in _unfinished(log).items() if other != job}
    return ", ".join(
        f"{other} pass {number}"
        for other, number in meet.items()
        if JOB_MAINTAIN not in (job, other) and JOB_TAKE_BACK in (job, other)
    )


def _unfinished(log: DeltaLogView) -> dict[str, int]:
    planned = {PLANNED.fullmatch(app_id): number for app_id, number in log.txn_versions().items()}
    return {found[1]: number for found, number in planned.items() if found and number > _ended(log, found[1])}


def _taken_back(log: DeltaLogView, table: str, after: int, upto: int) -> list[tuple[int, str]]:
    """Versions in the range that took rows back, each with its broker."""
    if not log.txn_version(_app_id(JOB_TAKE_BACK, table, table)):
        return []
    tags = ((version, log.tag(version)) for version in range(after + 1, upto + 1))
    begins = f"txmq {JOB_TAKE_BACK} "
    return [
        (version, json.loads(tag.partition("\n")[2])["broker_name"]) for version, tag in tags if tag.startswith(begins)
    ]


def _emptiness(frame: DataFrame, has_rows: bool | None) -> Callable[[], bool]:
    return frame.isEmpty if has_rows is None else lambda: not has_rows


def _app_id(job: str, table: str, step: str) -> str:
    return f"txmq/{job}/{table}/{step}"


def _pass_tag(job: str, number: int, step: str) -> str:
    return f"txmq {job} pass {number} {step}"


def _ended(log: DeltaLogView, job: str) -> int:
    return max(log.txn_version(_app_id(job, "pass", state)) for state in (COMMITTED, ABANDONED))


def _plan_row(warehouse: Warehouse, job: str, number: int) -> Row:
    rows = warehouse.read("pass").where(f"job = '{job}' and pass_number = {number} and state = '{STARTED}'")
    # Spark hands times over in the local zone, where an hour may come twice.
    return rows.withColumn("now_us", F.unix_micros("now")).collect()[0]


def _note_of(warehouse: Warehouse, log: DeltaLogView, job: str, number: int) -> dict[str, Any]:
    """What a committed pass left for the next: the note of its commit while the log holds it, else from its row."""
    if number == 0:
        return {}
    commit = log.tagged_commit(_pass_tag(job, number, COMMITTED))
    if commit is None:
        return {"input_versions": dict(_plan_row(warehouse, job, number)["input_versions"])}
    return dict(json.loads(commit.note))


def _since(logs: Mapping[str, DeltaLogView], note: Mapping[str, Any]) -> dict[str, int]:
    """The versions up to which the pass that left `note` knew all: its inputs, what it wrote on top, and upkeep.

    A table is left out where its log no longer tells what came next: it is read whole then.
    """
    own = note.get("own_versions", {})
    inputs = note.get("input_versions", {})
    known = {
        name: log.all_known_to(int(inputs[name]), log.version, own.get(name, ()))
        for name, log in logs.items()
        if name in inputs
    }
    return {name: version for name, version in known.items() if version is not None}


def _lost_feeds(warehouse: Warehouse, row: Row) -> frozenset[str]:
    """Tables whose log no longer tells what came behind the since version of a plan."""
    upto = row["input_versions"]
    since = dict(row["since_versions"])
    return frozenset(
        name for name, version in since.items() if warehouse.log(name).all_known_to(version, upto[name]) is None
    )


def _load_pass(warehouse: Warehouse, job: str, number: int, *, wall_clock: Callable[[], datetime]) -> Pass:
    row = _plan_row(warehouse, job, number)
    return Pass(
        warehouse=warehouse,
        job=job,
        number=number,
        now=EPOCH + timedelta(microseconds=row["now_us"]),
        input_versions=dict(row["input_versions"]),
        since_versions=dict(row["since_versions"]),
        arguments=json.loads(row["arguments"]),
        settings=Settings.from_json(row["settings"]),
        is_own=False,
        wall_clock=wall_clock,
        plan_id=row["plan_id"],
        _lost_feeds=_lost_feeds(warehouse, row),
    )


def _append_pass_row(current: Pass, state: str, checkpoints: Mapping[str, int], note: Mapping[str, Any]) -> None:
    warehouse = current.warehouse
    row = {
        "job": current.job,
        "pass_number": current.number,
        "state": state,
        "now": current.now,
        "input_versions": current.input_versions,
        "since_versions": current.since_versions,
        "plan_id": current.plan_id,
        "arguments": json.dumps(current.arguments, sort_keys=True),
        "settings": current.settings.to_json(),
        "settings_fingerprint": current.settings.fingerprint(),
        "counts": dict(current.counts),
        "seconds": {step: round(taken, 3) for step, taken in current.seconds.items()},
        "checkpoints": dict(checkpoints),
        "wall_timestamp": current.wall_clock(),
        "started_by": f"{getpass.getuser()}@{socket.gethostname()}",
        "txmq_version": _txmq_version(),
    }
    frame = local_frame(warehouse.spark, [row], struct_type(table_spec("pass")))
    writer = frame.write.format("delta").mode("append")
    try:
        writer.options(
            txnAppId=_app_id(current.job, "pass", state),
            txnVersion=current.number,
            userMetadata=_pass_tag(current.job, current.number, state) + "\n" + json.dumps(note),
        ).save(warehouse.path("pass"))
    except CONFLICTS:
        # The same row by another process carrying the plan on: theirs stands.
        if warehouse.log("pass").txn_version(_app_id(current.job, "pass", state)) < current.number:
            raise PassConflict(f"{current.job} pass {current.number} could not be {state}; try again") from None
    warehouse.on_write("pass", state)


def _txmq_version() -> str:
    try:
        return version("txmq")
    except PackageNotFoundError:
        return "unknown"
