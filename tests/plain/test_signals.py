"""Signals that end a command: what it says, its status, and that nothing it has started is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from signals import ENDING, signalled

from txmq_lib.cli import main, signals

READY = "ready\n"


def program(tmp_path: Path, body: str) -> list[str]:
    """A program that does `body` while its signals are watched; `ready()` says that it may be sent one."""
    file = tmp_path / "program.py"
    head = """
        import os, signal, subprocess, sys, threading, time
        from txmq_lib.cli import signals
        def ready():
            os.write(2, b"ready\\n")
        with signals.watched(is_program=True):
    """
    file.write_text(textwrap.dedent(head) + textwrap.indent(textwrap.dedent(body), "    "), encoding="utf-8")
    return [sys.executable, str(file)]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_ends_whatever_waits_with_one_line_and_its_status(tmp_path, number, times):
    body = "ready()\nthreading.Event().wait()\nprint('after')"
    ended = signalled(program(tmp_path, body), number, 0, times=times, until=READY)
    assert (ended.signalled, ended.faults(number)) == (True, [])
    assert ended.words == f"ended by {number.name}; the same command carries an unfinished pass on\n"


def test_all_that_was_started_is_gone_though_it_will_not_end(tmp_path):
    stubborn = "trap '' TERM HUP INT; (trap '' TERM; exec sleep 300) & while :; do sleep 0.05; done"
    body = f"subprocess.Popen(['bash', '-c', {stubborn!r}])\ntime.sleep(0.5)\nready()\ntime.sleep(300)"
    ended = signalled(program(tmp_path, body), signal.SIGTERM, 0, until=READY)
    assert ended.faults(signal.SIGTERM) == []
    assert 3 < ended.seconds < 8
    hurried = signalled(program(tmp_path, body), signal.SIGTERM, 0, times=2, until=READY)
    assert hurried.faults(signal.SIGTERM) == []
    assert hurried.seconds < 2


def test_who_can_end_is_let_end_first(tmp_path):
    gentle = f"trap 'echo cleaned > {tmp_path}/cleaned; exit' TERM; echo up; while :; do sleep 0.05; done"
    body = f"subprocess.Popen(['bash', '-c', {gentle!r}])\ntime.sleep(0.5)\nready()\ntime.sleep(300)"
    ended = signalled(program(tmp_path, body), signal.SIGTERM, 0, until=READY)
    assert ended.faults(signal.SIGTERM) == []
    assert (tmp_path / "cleaned").read_text() == "cleaned\n"


def test_an_error_that_comes_of_the_signal_is_not_told_beside_it(tmp_path):
    body = """
        child = subprocess.Popen(["sleep", "300"])
        ready()
        child.wait()
        signals.settle()
        os.write(2, b"error UNEXPECTED: the child is gone\\n")
    """
    ended = signalled(program(tmp_path, body), signal.SIGHUP, 0, until=READY)  # to its group: the child too
    assert ended.faults(signal.SIGHUP) == []


def test_nobody_reading_what_it_says_holds_nobody(tmp_path):
    body = """
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.set_blocking(2, False)
        try:
            while True:
                os.write(2, b"x" * 65536)
        except BlockingIOError:
            os.set_blocking(2, True)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(300)
    """
    begun = time.monotonic()
    done = subprocess.run(program(tmp_path, body), timeout=30, check=False)
    assert (done.returncode, time.monotonic() - begun < 8) == (143, True)


def test_what_was_ignored_from_the_start_stays_ignored(tmp_path):
    body = "os.kill(os.getpid(), signal.SIGHUP)\ntime.sleep(0.3)\nprint('survived')"
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, *program(tmp_path, body)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "survived\n")


def test_the_first_signal_may_stop_gently_and_the_second_ends(tmp_path):
    body = """
        told = threading.Event()
        with signals.stopped_by(told.set), signals.before_end(lambda: os.write(2, b"never read")):
            ready()
            told.wait()
            time.sleep(1)
    """
    assert signalled(program(tmp_path, body), signal.SIGTERM, 0, until=READY).status == 0
    assert signalled(program(tmp_path, body), signal.SIGTERM, 0, times=2, until=READY).faults(signal.SIGTERM) == []


def test_a_command_gives_the_signals_back_to_who_called_it():
    before = [signal.getsignal(number) for number in ENDING]
    assert main(["--help"]) == 0
    assert [signal.getsignal(number) for number in ENDING] == before
    with signals.watched(is_program=False):
        assert signal.getsignal(signal.SIGTERM) != before[1]
        signals.settle()
    assert [signal.getsignal(number) for number in ENDING] == before
    assert signal.set_wakeup_fd(-1) == -1
