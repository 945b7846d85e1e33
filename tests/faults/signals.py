"""Commands as processes that are sent a signal at some moment: how they ended, what they said, what they left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

TXMQ = str(Path(sys.executable).with_name("txmq"))
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST_SECONDS, MOST_UNTIL_GONE = 10.0, 3.0
MARK = "TXMQ_SIGNALS_TRIAL"
CAUGHT, IGNORED = "SigCgt", "SigIgn"  # in /proc/PID/status


@dataclass(frozen=True)
class Ended:
    """How one process ended.

    status    None where it hung: it had not ended MOST_SECONDS after the signal
    seconds   from the signal to the end; where it was over before, from its beginning to its end, of its own time
    words     its stderr
    left      command lines of the processes of its own that were still there MOST_UNTIL_GONE later
    signalled whether it was there to be sent the signal
    """

    status: int | None
    seconds: float
    words: str
    left: tuple[str, ...]
    signalled: bool

    def faults(self, number: int, own: Container[str] = ()) -> list[str]:
        """What is other than told: status 128 and the signal's number, within 10 s, one line, nothing left.

        own  lines that it says when left alone
        """
        if not self.signalled:
            return []
        lines = [line for line in self.words.splitlines() if line not in own]
        return [
            *(["hang"] if self.status is None else []),
            *([f"status {self.status}"] if self.status not in (None, 128 + number) else []),
            *([f"{len(lines)} lines: {self.words[-600:]!r}"] if len(lines) != 1 else []),
            *(f"left: {one[:200]}" for one in self.left),
        ]


def signalled(
    command: Sequence[str],
    number: int,
    after_s: float,
    *,
    times: int = 1,
    apart_s: float = 0.2,
    until: str = "",
    when: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run `command`, send it the signal `after_s` seconds later, once or more, and see it end.

    Time is its own, and counts from when it acts on signals: before, while Python begins, a signal ends it as it ends
    any program.
    until, when   wait first until its stderr holds this text, and until this is so
    SIGINT and SIGHUP go to its whole process group, as a terminal sends them, SIGTERM to it alone, as `kill` does.
    """
    mark = uuid4().hex
    with tempfile.TemporaryFile("w+b") as said:
        process = subprocess.Popen(
            [*command],
            env={**os.environ, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
            preexec_fn=_as_from_a_terminal,
        )
        try:
            limit = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < limit:
                if _has(process.pid, CAUGHT, signal.SIGTERM) and until in _said(said) and when():
                    break
                time.sleep(0.01)
            own = OwnTime(process.pid)
            while process.poll() is None and own.seconds() < after_s:
                time.sleep(0.005)
            lived = own.seconds()
            # One that is about to leave has said with which status, and passes signals over.
            is_there = process.poll() is None and not _has(process.pid, IGNORED, number)
            before = len(_said(said))
            sent = time.monotonic()
            for _ in range(times):
                _send(process, number)
                time.sleep(apart_s if times > 1 else 0)
            try:
                status: int | None = process.wait(max(0.1, sent + MOST_SECONDS - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = None
            seconds = time.monotonic() - sent if is_there else lived
            left = _left(mark)
            return Ended(status, seconds, _said(said)[before:], left, is_there)
        finally:
            for pid in _marked(mark):
                _kill(pid)
            process.wait()


class OwnTime:
    """Seconds since it was made in which a process's main thread ran or waited for others, not for a core.

    So a moment of a command is the same one beside other commands.
    """

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/schedstat")
        self._waited = 0.0
        self._begun = time.monotonic() - self._waited_for_a_core()

    def seconds(self) -> float:
        """So many until now; of one that is over, what it waited for a core since the last call is counted too."""
        return time.monotonic() - self._begun - self._waited_for_a_core()

    def _waited_for_a_core(self) -> float:
        with suppress(OSError, IndexError):  # it is over, or the kernel does not count
            self._waited = int(self._path.read_text().split()[1]) / 1e9
        return self._waited


def _as_from_a_terminal() -> None:
    # Whoever starts the tests in the background of a script has SIGINT ignored, and children would too.
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def _has(pid: int, field: str, number: int) -> bool:
    """Whether the kernel has this signal in a field of the process's status."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return bool(int(status.partition(f"{field}:")[2].split()[0], 16) >> (number - 1) & 1)


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        if number == signal.SIGTERM:
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)


def _said(file: tempfile._TemporaryFileWrapper[bytes]) -> str:
    return os.pread(file.fileno(), 1 << 20, 0).decode("utf-8", "replace")


def _left(mark: str) -> tuple[str, ...]:
    limit = time.monotonic() + MOST_UNTIL_GONE
    while (found := list(_marked(mark))) and time.monotonic() < limit:
        time.sleep(0.05)
    return tuple(_command_line(pid) for pid in found)


def _marked(mark: str) -> Iterator[int]:
    """Processes that live and have the mark in their environment; it is handed on to whatever is started."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if f"{MARK}={mark}".encode() in Path(entry.path, "environ").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return f"process {pid}"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
