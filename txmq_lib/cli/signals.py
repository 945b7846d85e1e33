"""Signals that end a command, whatever it is doing: one line, nothing left behind, status 128 and the signal's number.

Python runs handlers in the main thread, between two of its instructions. That thread may wait for the JVM for minutes,
and an exception raised there leaves py4j in the middle of an answer. So the handlers do nothing: the interpreter writes
the number of each signal into a pipe, and a thread reads it. A second signal ends at once.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from txmq_lib.cli.processes import end_all_started
from txmq_lib.files.scratch import remove_scratch

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Spark's hooks stop the context and remove its files: 1 s at most where nothing is wrong.
MOST_FOR_CHILDREN_S, MOST_TO_WRITE_S, MOST_S = 4.0, 1.0, 9.0
SETTLE, OVER = 0, 255  # no signals have these numbers

Handler = Callable[[int, FrameType | None], object] | int | None


class _Watch:
    """The thread that acts on signals, and what was there before it."""

    def __init__(self) -> None:
        self.actions: dict[int, Callable[[], None]] = {}
        self.stop: Callable[[], None] | None = None
        self.before_end: list[Callable[[], None]] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._pipe_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before: dict[int, Handler] = {}
        self._settled = threading.Event()
        self._over = threading.Event()
        for number in ENDING:
            self.take(number)
        threading.Thread(target=self._read, name="txmq-signals", daemon=True).start()

    def take(self, number: int) -> None:
        """Have a signal's number written into the pipe, unless whoever started the program has it ignored (nohup)."""
        before = signal.getsignal(number)
        self._before[number] = before
        if before is not signal.SIG_IGN:
            signal.signal(number, _do_nothing)

    def settle(self) -> None:
        """Return when all signals that were sent before have been acted on; where one ends the process, never."""
        self._settled.clear()
        os.write(self._writing, bytes([SETTLE]))
        self._settled.wait()

    def give_back(self, *, is_program: bool) -> None:
        """Act on no further signal; does not return where one was sent before.

        is_program  the process ends now: what comes is too late to change how
        """
        has_threads = any(
            each is not threading.main_thread() and not each.daemon and each.is_alive()
            for each in threading.enumerate()
        )
        if is_program and has_threads:
            return  # the process waits for them, and may have to be ended
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if is_program else before)
        signal.set_wakeup_fd(self._pipe_before)
        os.write(self._writing, bytes([OVER]))
        self._over.wait()
        os.close(self._reading)
        os.close(self._writing)

    def _read(self) -> None:
        while (number := os.read(self._reading, 1)[0]) != OVER:
            if number in ENDING:
                stop, self.stop = self.stop, None
                if stop is None:
                    self._end(number)
                else:
                    stop()
            elif number == SETTLE:
                self._settled.set()
            elif number in self.actions:
                self.actions[number]()
        self._over.set()

    def _end(self, number: int) -> None:
        status = 128 + number
        threading.Thread(target=_exit_late, args=(status,), daemon=True).start()
        try:
            _say_last(f"ended by {signal.Signals(number).name}; the same command carries an unfinished pass on")
            for work in self.before_end:
                with suppress(Exception):
                    work()
            end_all_started(MOST_FOR_CHILDREN_S, is_hurried=self._is_sent_again)
            remove_scratch()
        finally:
            os._exit(status)

    def _is_sent_again(self) -> bool:
        while select.select([self._reading], [], [], 0)[0]:
            if os.read(self._reading, 1)[0] in ENDING:
                return True
        return False


_watch: _Watch | None = None


@contextmanager
def watched(*, is_program: bool) -> Iterator[None]:
    """Act on the signals of ENDING inside; nothing where this is not the main thread, or they are watched already.

    is_program  the process ends behind it
    """
    global _watch  # as signals are, the process's
    if _watch is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _watch = mine = _Watch()
    try:
        yield
    finally:
        mine.give_back(is_program=is_program)
        _watch = None


def settle() -> None:
    """Before an error is told: it may come of a signal that ends the process, and was sent to the JVM too."""
    if _watch is not None:
        _watch.settle()


def leave(status: int) -> NoReturn:
    """End the process with a status, as it would end, but for threads: one inside a library brings Python down."""
    try:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        end_all_started(MOST_FOR_CHILDREN_S, is_hurried=lambda: False)
        remove_scratch()
    finally:
        os._exit(status)


@contextmanager
def acted_on(number: int, action: Callable[[], None]) -> Iterator[None]:
    """Call `action` at each signal of this number, in a thread of its own."""
    if _watch is None:
        yield
        return
    _watch.actions[number] = action
    _watch.take(number)
    try:
        yield
    finally:
        del _watch.actions[number]


@contextmanager
def stopped_by(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal of ENDING instead of ending; the next one ends."""
    if _watch is None:
        yield
        return
    _watch.stop = stop
    try:
        yield
    finally:
        _watch.stop = None


@contextmanager
def before_end(work: Callable[[], None]) -> Iterator[None]:
    """Do this too before a signal ends the process."""
    if _watch is None:
        yield
        return
    _watch.before_end.append(work)
    try:
        yield
    finally:
        _watch.before_end.remove(work)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """The interpreter has written the number into the pipe by now."""


def _exit_late(status: int) -> None:
    time.sleep(MOST_S)
    os._exit(status)


def _say_last(words: str) -> None:
    """Write the last line to stderr; what anybody writes after it, to stdout too, goes nowhere."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    last = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    # A progress bar may stand there, and hides the cursor.
    line = f"\r\x1b[2K\x1b[?25h{words}\n" if is_terminal else f"{words}\n"
    if select.select([], [last], [], MOST_TO_WRITE_S)[1]:  # whoever should read it may not
        with suppress(OSError):
            os.write(last, line.encode())
