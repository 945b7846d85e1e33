"""Every command ended at ten moments by every signal, once and twice: what it says, leaves, and what the next run makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from captured import unpack_store
from contents import contents, differences
from signals import ENDING, TXMQ, Ended, signalled
from truth import CAPTURES

MOMENTS = 10
NOW = ("--now", "2026-11-21T12:00:00Z")
CONF = ("--conf", "conf/few-rows.yaml")
BROKER = ("--broker", "oracle-a")
HALF, END = (str(CAPTURES / "restart" / f"{name}.jsonl.gz") for name in ("half", "ends"))
OFFSETS = str(CAPTURES / "restart" / "config" / "consumerOffset.json")
# What is there before a command that is ended is begun.
LANDED = (("land", "half", HALF, *BROKER, *NOW), ("land", "end", END, *BROKER, *NOW))
RECONCILED = (*LANDED, ("reconcile", *NOW))
ROLLED = (("land", "offset", OFFSETS, *BROKER, *NOW),)


@dataclass(frozen=True)
class Command:
    """A command, and those before it; `{place}` in its arguments is a directory of its own.

    may_stop  whether the first signal is a wish to stop, so that it may also end with status 0 and more than one line
    has_end   whether it ends when it is left alone
    """

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    may_stop: bool = False
    has_end: bool = True


COMMANDS = {
    "init": Command(("init",)),
    "land": Command(("land", "half", HALF, *BROKER, *NOW)),
    "land-store": Command(("land", "store", "{place}/store", *BROKER, *NOW)),
    "reconcile": Command(("reconcile", *NOW), LANDED),
    "resolve": Command(("resolve", *NOW), RECONCILED),
    "rollup": Command(("rollup", *NOW), ROLLED),
    "audit": Command(("audit", *NOW), RECONCILED),
    "run": Command(("--conf", "{place}/sources.yaml", "run", *NOW)),
    "maintain": Command(("--set", "maintain.small_files=2", "maintain"), RECONCILED),
    "take-back": Command(("take-back", *BROKER, "--apply"), LANDED),
    "demo": Command(("demo",)),
    "serve": Command(
        ("--conf", "{place}/sources.yaml", "serve", "--now-first", "--health-file", "{place}/health.json"),
        may_stop=True,
        has_end=False,
    ),
    "status": Command(("status", "--watch", "0.5", *NOW), RECONCILED, has_end=False),
    "verdicts": Command(("verdicts", *NOW), RECONCILED),
    "report": Command(("report", "--out", "{place}/report.html", *NOW), RECONCILED),
    "metrics": Command(("metrics", "--out", "{place}/metrics.prom", *NOW), RECONCILED),
    "doctor": Command(("doctor",), LANDED),
}
WITHOUT_END_S = 20.0  # what is watched of a command that never ends


@dataclass
class Counted:
    """What was seen of one command."""

    command: str
    trials: int = 0
    over_before: int = 0
    statuses_other: int = 0
    hangs: int = 0
    left: int = 0
    lines_other: int = 0
    rows_other: int = 0
    slowest_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether all was as told."""
        return not (self.statuses_other or self.hangs or self.left or self.lines_other or self.rows_other)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.trials, self.over_before, self.statuses_other, self.hangs, self.left, self.lines_other)
        return [self.command, *map(str, (*counts, self.rows_other)), f"{self.slowest_s:.1f}", "; ".join(self.notes)]

    def take(self, number: int, ended: Ended, *, may_stop: bool, told: str) -> None:
        """One trial."""
        self.trials += 1
        if not ended.signalled:
            self.over_before += 1
            return
        self.slowest_s = max(self.slowest_s, ended.seconds)
        is_stop = may_stop and ended.status == 0
        lines = len(ended.words.splitlines())
        self.hangs += ended.status is None
        self.statuses_other += not is_stop and ended.status not in (None, 128 + number)
        self.left += len(ended.left)
        self.lines_other += lines != 1 and not may_stop
        if (faults := ended.faults(number)) and not may_stop:
            self.notes.append(f"{told}: {', '.join(faults)}")


COLUMNS = (
    *(
        "command",
        "trials",
        "over before",
        "statuses other than told",
        "hangs",
        "processes left",
        "more or less than a line",
    ),
    *("rows other than undisturbed", "slowest s", "seen"),
)


def ended_by_signals(place: Path, name: str, times: Sequence[int] = (1, 2), moments: int = MOMENTS) -> Counted:
    """The command at every moment, ended by each signal; after each ten it is left alone and makes what it should."""
    command, counted = COMMANDS[name], Counted(name)
    base = _prepared(place / f"{name}-base", command)
    whole = _copy(base, place / f"{name}-whole")
    begun = time.monotonic()
    if command.has_end:
        _left_alone(whole, command)
    seconds = time.monotonic() - begun if command.has_end else WITHOUT_END_S
    expected = _contents(whole)
    for number, often in product(ENDING, times):
        run = _copy(base, place / f"{name}-{number.name}-{often}")
        for moment in range(moments):
            after_s = seconds * (moment + 0.5) / moments
            ended = signalled(_line(run, command), number, after_s, times=often)
            counted.take(number, ended, may_stop=command.may_stop, told=f"{number.name} x{often} after {after_s:.1f} s")
            if name == "serve" and (health := run / "health.json").exists():
                counted.statuses_other += json.loads(health.read_text())["state"] != "stopped"
        if command.has_end:
            _left_alone(run, command)
            differing = differences(expected, _contents(run))
            counted.rows_other += sum(lost + extra for lost, extra in differing.values())
            counted.notes += [f"{table}: {lost} lost, {extra} too many" for table, (lost, extra) in differing.items()]
        shutil.rmtree(run)
    return counted


def _prepared(base: Path, command: Command) -> Path:
    base.mkdir(parents=True)
    store = unpack_store("basic", base / "unpacked")
    store.rename(base / "store")
    for before in command.before:
        _left_alone(base, Command(before))
    return base


def _copy(base: Path, run: Path) -> Path:
    shutil.copytree(base, run)
    sources = [
        {"kind": "half", "paths": [HALF], "broker": "oracle-a"},
        {"kind": "end", "paths": [END], "broker": "oracle-a"},
    ]
    (run / "sources.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return run


def _line(run: Path, command: Command) -> list[str]:
    arguments = [argument.format(place=run) for argument in command.arguments]
    return [TXMQ, *CONF, "--warehouse", str(run / "warehouse"), *arguments]


def _left_alone(run: Path, command: Command) -> None:
    done = subprocess.run(_line(run, command), capture_output=True, text=True, check=False, env=_environment())
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command.arguments[0]}: status {done.returncode}: {done.stderr[-2000:]}")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TXMQ_")}


def _contents(run: Path) -> dict[str, Counter[str]]:
    return contents(run / "warehouse") if (run / "warehouse").exists() else {}


def named(only: str) -> Iterator[str]:
    """The commands whose fault is named so."""
    return (name for name in COMMANDS if only in f"signals-{name}")
