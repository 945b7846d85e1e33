"""`txmq serve` and `txmq wakeup`: the service in this process, its signals, its health file and endpoint."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import typer
from pyspark.sql import SparkSession

from txmq_lib.cli import signals
from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.before_spark import require_recorded_roles, require_secrets
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.endpoint import Counted, endpoint, require_free
from txmq_lib.cli.run.pages import Pages
from txmq_lib.cli.run.passes import mend_warehouse, spark_warehouse, stopping_spark
from txmq_lib.cli.run.recorded import recorded
from txmq_lib.cli.run.rounds import Rounds
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.errors import EXIT_FAILED, code_and_words
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.shared.roles import require_roles_kept, require_roles_of_sources
from txmq_lib.service.health_file import Health
from txmq_lib.service.rounds import Listeners, Step
from txmq_lib.service.service import services
from txmq_lib.service.thread import PeriodicService
from txmq_lib.spark.session import is_session_alive
from txmq_lib.views.runs import SERVE

STOP, WAKE, LOST = "stop", "wake", "lost"


def run_serve(options: Options, *, is_first_at_once: bool, health_path: Path, listen: tuple[str, int] | None) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; SIGUSR1 wakes. Status 3 where Spark or a thread is lost.

    Before it serves those signals end it as any other command, and the second one does.
    """
    settings = settings_of(options)
    with recorded(SERVE, settings) as run:
        require_roles_of_sources(settings)
        require_secrets(settings, os.environ)
        if listen is not None:
            require_free(listen)
        mend_warehouse(settings)
        # Every pass would be refused, round after round.
        require_recorded_roles(settings)
        pages = Pages(settings, pasteable(options))
        rounds = Rounds(location(settings.warehouse), run.started)
        _serve(settings, pages, rounds, is_first_at_once=is_first_at_once, health_path=health_path, listen=listen)


def _serve(
    settings: Settings,
    pages: Pages,
    rounds: Rounds,
    *,
    is_first_at_once: bool,
    health_path: Path,
    listen: tuple[str, int] | None,
) -> None:
    inbox: SimpleQueue[str] = SimpleQueue()
    with signals.acted_on(signal.SIGUSR1, lambda: inbox.put(WAKE)):
        health = Health(health_path, wall_clock)
        with signals.before_end(health.stopped), stopping_spark(), spark_warehouse("serve", settings) as (warehouse, _):
            require_roles_kept(warehouse, settings, now=wall_clock(), wall_clock=wall_clock)
            spark = warehouse.spark
            running = services(
                warehouse,
                settings,
                wall_clock=wall_clock,
                environ=os.environ,
                listeners=_listeners(health, inbox, spark, rounds),
                is_first_at_once=is_first_at_once,
            )
            counted = _counted(settings, health_path)
            with (
                endpoint(listen, health, counted, wake=lambda: inbox.put(WAKE), pages=pages) as address,
                signals.stopped_by(lambda: inbox.put(STOP)),
            ):
                rounds.begun()
                for service in running:
                    service.start()
                health.running()
                at = f", listening at {address[0]}:{address[1]}" if address else ""
                _say(f"serving {location(settings.warehouse)}, process {os.getpid()}, health in {health_path}{at}")
                message, has_ended = _served(running, inbox)
                rounds.write()
            lost_what = _lost_what(spark) if message == LOST else None
        _tell_end(health, lost_what, has_ended=has_ended)
    if message == LOST or not has_ended:
        raise typer.Exit(EXIT_FAILED)


def _counted(settings: Settings, health_path: Path) -> Counted:
    return Counted(
        location(settings.warehouse),
        health_path.with_suffix(".prom"),
        lag_window_ms=settings.lag_window_ms,
        source_steps=steps_of_sources(settings.sources),
    )


def _served(running: Sequence[PeriodicService], inbox: SimpleQueue[str]) -> tuple[str, bool]:
    """Wake the services until they are to end; why that is, and whether they all did in time."""
    has_ended = False
    try:
        while (message := inbox.get()) == WAKE:
            for service in running:
                service.wakeup()
    finally:
        for service in running:
            service.stop(interrupt=True)
        has_ended = all([service.shutdown() for service in running])
    return message, has_ended


def _listeners(health: Health, inbox: SimpleQueue[str], spark: SparkSession, rounds: Rounds) -> Listeners:
    """What a round leaves: in the health file and on stderr. A session or a thread that is gone ends the service."""
    log = RoundLog()

    def failure(step: Step, error: str, pause_s: float) -> None:
        health.failure(step.name, error, failures=step.failures, pause_s=pause_s)
        rounds.failed(step.name, error)
        _say(f"{step.name} failed: {error}; tried again in {pause_s:.0f} s")
        if not is_session_alive(spark):
            inbox.put(LOST)

    def report(step: str, done: PassReport) -> None:
        health.report(step, done)
        rounds.done(step, done)
        log.report(step, done)

    def lost(service: str, error: Exception) -> None:
        inbox.put(LOST)  # first, whatever becomes of the telling
        code, words = code_and_words(error)
        health.failure(service, f"{code}: {words}", failures=1, pause_s=0)
        _say(f"{service} ended: {code}: {words}")

    return Listeners(report, failure, lost)


class RoundLog:
    """What is said of steps on stderr: every pass; what was found without one only when it is other than before."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, ...]] = {}

    def report(self, step: str, done: PassReport) -> None:
        """A step has ended."""
        before, self._found[step] = self._found.get(step, ()), done.findings
        if done.number:
            counts = " ".join(f"{name} {count}" for name, count in done.counts.items() if count)
            seconds = round(sum(done.seconds.values()), 1)
            _say(f"{step}: pass {done.number}, {counts or 'nothing'}, {seconds} s")
        elif done.findings == before:
            return
        for finding in done.findings:
            _say(f"{step}: {finding}")


def _lost_what(spark: SparkSession) -> str:
    return "a service thread ended" if is_session_alive(spark) else "Spark is gone"


def _tell_end(health: Health, lost_what: str | None, *, has_ended: bool) -> None:
    if lost_what is not None:
        health.failure("serve", lost_what, failures=1, pause_s=0)
        _say(lost_what)
    else:
        health.stopped()
        _say("stopped" if has_ended else "stopped, though a pass did not end within 90 s")


def wake(pid: int) -> None:
    """Let the service begin its rounds now."""
    os.kill(pid, signal.SIGUSR1)


def _say(words: str) -> None:
    # A full disk or a closed stderr is no reason to stop reconciling.
    with suppress(OSError, ValueError):
        say(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words}", err=True)
