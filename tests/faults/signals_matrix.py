"""Every command ended at ten moments by every signal, once and twice: what it says, leaves, and what the next run makes.

That is ROUNDS rounds. One (`--rounds 1`) has every command at every moment, and each command meets every signal, once
and twice. It leaves out most pairs of a moment and a signal.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from contents import contents, differences
from deltalake import DeltaTable
from signals import ENDING, TXMQ, Ended, OwnTime, signalled
from signals_commands import COMMANDS, Command
from signals_places import SETTINGS, Places, require_done

from txmq_lib.config.settings import Settings
from txmq_lib.spark.session import build_session

MOMENTS = 10
# The next run, and what is there before, are done by one JVM that stays; only what is ended needs one of its own.
STAYING = "spark.spark.driver.memory=1g"
WITHOUT_END_S, WITHOUT_END_QUICK_S = 40.0, 4.0  # what is watched of a command that never ends
MOST_TRIES = 4
ROUNDS = 2 * len(ENDING)
REQUESTS = "broker_request"
RUNS = "run"  # each run is a row, however it ended


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
    carried_on: int = 0
    not_carried_on: int = 0
    rows_other: int = 0
    slowest_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether all was as told."""
        ends = self.statuses_other or self.hangs or self.left or self.lines_other
        return not (ends or self.not_carried_on or self.rows_other)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.trials, self.over_before, self.statuses_other, self.hangs, self.left, self.lines_other)
        all_counts = (*counts, self.carried_on, self.not_carried_on, self.rows_other)
        return [self.command, *map(str, all_counts), f"{self.slowest_s:.1f}", "; ".join(self.notes)]

    def take(self, number: int, ended: Ended, *, may_stop: bool, trial: str, own: frozenset[str]) -> None:
        """One trial; `own` are the lines that the command says when left alone."""
        self.trials += 1
        if not ended.signalled:
            self.over_before += 1
            return
        self.slowest_s = max(self.slowest_s, ended.seconds)
        is_stop = may_stop and ended.status == 0
        lines = sum(line not in own for line in ended.words.splitlines())
        self.hangs += ended.status is None
        self.statuses_other += not is_stop and ended.status not in (None, 128 + number)
        self.left += len(ended.left)
        self.lines_other += lines != 1 and not may_stop
        if (faults := ended.faults(number, own)) and not may_stop:
            self.notes.append(f"{trial}: {', '.join(faults)}")


COLUMNS = (
    *("command", "trials", "over before", "statuses other than told", "hangs", "processes left"),
    *("more or less than a line", "next runs", "that failed", "rows other than undisturbed", "slowest s", "seen"),
)


class Trials:
    """Trials of the named commands, in rounds: each ends every command once at every moment, by another signal.

    After each trial of the first round the same command is left alone and must make what it makes undisturbed.

    at_once  so many commands that start no JVM are tried beside each other; the others share a broker, and a session
    """

    def __init__(self, place: Path, names: Sequence[str], moments: int = MOMENTS, at_once: int = 1) -> None:
        self.counted = {name: Counted(name) for name in names}
        self._place, self._moments = place, moments
        self._quick = ThreadPoolExecutor(at_once)
        self._session = build_session("txmq-faults", Settings.load([SETTINGS], [STAYING]))
        self._places = Places(place)
        self._start_s, _ = self._alone(place / "start", ("init",))
        self._own: dict[str, frozenset[str]] = {}
        self._expected: dict[str, tuple[float, dict[str, Counter[str]]]] = {}

    def close(self) -> None:
        """Let go of whom the commands talked to."""
        self._quick.shutdown()
        self._session.stop()
        self._places.close()

    def run(self, minutes: float, rounds: int = ROUNDS, from_round: int = 1) -> Iterator[str]:
        """A line per trial of the rounds up to that number; none is begun once so many minutes are over."""
        limit = time.monotonic() + 60 * minutes
        for name in self.counted:
            self._undisturbed(name)
        # Spread, so that whatever was done when the time is over is of all: 5, 8, 1, 4, 7, ...
        moments = sorted(range(self._moments), key=lambda moment: (7 * moment + 5) % self._moments)
        for turn in range(from_round - 1, rounds):
            for moment in moments:
                for starts_jvm, run in ((False, self._quick.map), (True, map)):
                    trials = [
                        (name, moment, at + moment + turn, turn == 0)
                        for at, name in enumerate(self.counted)
                        if COMMANDS[name].starts_jvm == starts_jvm
                    ]
                    for lines in run(lambda trial: self._tried(limit, *trial), trials):
                        yield from lines

    def _tried(self, limit: float, name: str, moment: int, which: int, is_first: bool) -> list[str]:
        """A line per try, until one was there to be sent the signal."""
        lines: list[str] = []
        while len(lines) < MOST_TRIES and time.monotonic() < limit:
            was_signalled, seen = self._trial(name, moment, ENDING[which % 3], 1 + which % 2, is_carried_on=is_first)
            lines.append(seen)
            if was_signalled:
                break
        return lines

    def _trial(self, name: str, moment: int, number: int, times: int, *, is_carried_on: bool) -> tuple[bool, str]:
        """Whether it was there to be sent the signal, and a line of what was seen."""
        command, counted = COMMANDS[name], self.counted[name]
        seconds, expected = self._undisturbed(name)
        own = self._own[name]
        run = self._places.copied(command, name)
        self._places.peers.begin()
        after_s = seconds * (moment + 0.5) / self._moments
        ended = signalled([TXMQ, *self._places.line(run, command.arguments)], number, after_s, times=times)
        trial = f"{name} {number.name} x{times} after {after_s:.1f} of {seconds:.1f} s"
        counted.take(number, ended, may_stop=command.may_stop, trial=trial, own=own)
        if not ended.signalled:  # it was quicker than thought, and is tried again
            self._expected[name] = min(seconds, ended.seconds), expected
        if ended.signalled and name == "serve" and (health := run / "health.json").exists():
            counted.statuses_other += json.loads(health.read_text())["state"] != "stopped"
        seen = f"{trial}: {ended.status} in {ended.seconds:.1f} s" if ended.signalled else f"{trial}: over before"
        is_carried_on = is_carried_on and command.has_end and not (command.only_reads or command.is_once)
        if is_carried_on and ended.signalled:
            counted.carried_on += 1
            try:
                differing = self._carried_on(run, command, expected)
                counted.rows_other += sum(lost + extra for lost, extra in differing.values())
                notes = [f"{table}: {lost} lost, {extra} too many" for table, (lost, extra) in differing.items()]
            except RuntimeError as error:
                counted.not_carried_on += 1
                notes = [str(error)]
            counted.notes += [f"{trial}: {note}" for note in notes]
            seen += f", carried on: {'; '.join(notes) or 'as undisturbed'}"
        self._places.leave(run, command)
        faults = [] if command.may_stop else ended.faults(number, own)
        return ended.signalled, seen + "".join(f" | {fault}" for fault in faults)

    def _undisturbed(self, name: str) -> tuple[float, dict[str, Counter[str]]]:
        """About how long the command takes, and what is there then."""
        if name not in self._expected:
            command = COMMANDS[name]
            seconds = WITHOUT_END_S if command.starts_jvm else WITHOUT_END_QUICK_S
            own: frozenset[str] = frozenset()
            run = self._places.copied(command, name)
            self._places.peers.begin()
            if command.has_end and command.starts_jvm:
                # About: one that is over before is tried again, in its own time.
                seconds = self._start_s + _timed(lambda: self._places.left_alone(run, command.arguments))
            elif command.has_end:
                seconds, own = self._alone(run, command.arguments)
            self._own[name] = own
            self._expected[name] = seconds, {} if command.only_reads else _contents(run, command)
            self._places.leave(run, command)
        return self._expected[name]

    def _alone(self, run: Path, arguments: tuple[str, ...]) -> tuple[float, frozenset[str]]:
        """How long a command takes as a process of its own, of its own time, and the lines that it says on stderr."""
        with tempfile.TemporaryFile("w+") as said:
            line = [TXMQ, *self._places.line(run, arguments)]
            process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=said)
            own, seconds = OwnTime(process.pid), 0.0
            while process.poll() is None:
                seconds = own.seconds()
                time.sleep(0.005)
            said.seek(0)
            words = said.read()
        require_done(arguments, process.returncode, words)
        return seconds, frozenset(words.splitlines())

    def _carried_on(self, run: Path, command: Command, expected: dict[str, Counter[str]]) -> dict[str, tuple[int, int]]:
        """What differs once the command was left alone; of what brokers are told, what never was or was told again."""
        leave_alone = self._places.left_alone if command.starts_jvm else self._alone
        leave_alone(run, command.arguments)
        found = _contents(run, command)
        if not command.sends:
            differing = differences(expected, found)
            if differing.get("pass", (1,))[0] == 0:
                del differing["pass"]  # it had committed before it was ended, and is done once more
            return differing
        # A request that was cut off may have arrived: it is closed, and not sent again.
        requests, decided = expected[REQUESTS], self._places.peers.sent()
        table = DeltaTable(str(run / "warehouse" / REQUESTS)).to_pyarrow_table(columns=["transaction_id"])
        known = {*table["transaction_id"].to_pylist()}
        again = sum(count - 1 for count in Counter(decided).values())
        differing = differences({**expected, REQUESTS: Counter()}, {**found, REQUESTS: Counter()})
        differing.pop("pass", None)  # how many requests there were is among its counts
        if again or 2 * len(known) != requests.total():
            differing[REQUESTS] = (requests.total() // 2 - len(known), again)
        return differing


def _timed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _contents(run: Path, command: Command) -> dict[str, Counter[str]]:
    house = run / "warehouse"
    if not house.exists():
        return {}
    found = contents(house, is_of_the_clock="--now" not in command.arguments)
    found.pop(RUNS, None)
    return found


def named(only: str, shard: str = "1/1", *, is_quick: bool = False) -> list[str]:
    """The commands whose fault is named so, of them the share `K/N`: those that need Spark are dealt out first.

    is_quick  only those that do not
    """
    which, of = map(int, shard.split("/"))
    names = [name for name in COMMANDS if only in f"signals-{name}" and not (is_quick and COMMANDS[name].starts_jvm)]
    return sorted(names, key=lambda name: not COMMANDS[name].starts_jvm)[which - 1 :: of]
