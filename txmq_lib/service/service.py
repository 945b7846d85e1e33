"""The threads of `txmq serve`: the cycle at every check interval, consumer offsets at theirs, each in a session."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from threading import Lock, Thread

from pyspark.sql import SparkSession

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import LeftOff
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.works import Work, works_of_cycle, works_on_offsets
from txmq_lib.service.rounds import Listeners, Step, run_round
from txmq_lib.service.thread import PeriodicService
from txmq_lib.spark.jvm import set_active
from txmq_lib.spark.session import is_session_alive, session_beside

# As a client begins to report offsets (R85).
OFFSETS_FIRST_DELAY_S = 10.0
CANCEL_EVERY_S = 0.5


def services(
    warehouse: Warehouse,
    settings: Settings,
    *,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    listeners: Listeners,
    is_first_at_once: bool = False,
) -> list[PeriodicService]:
    """The threads, not started yet. SettingsError where a secret is missing.

    Sources of offsets and acknowledgements, and the offsets of live brokers, are no part of the cycle: they have a
    thread of their own.
    """
    on_offsets = works_on_offsets(settings, wall_clock=wall_clock, environ=environ)
    works = works_of_cycle(settings, takes_offsets=False, wall_clock=wall_clock, environ=environ)
    locks: defaultdict[str, Lock] = defaultdict(Lock)
    service = partial(
        _service, warehouse=warehouse, settings=settings, listeners=listeners, locks=locks, wall_clock=wall_clock
    )
    check_interval_s = settings.transaction_check_interval_ms / 1000
    cycle = service(
        "txmq-cycle",
        works,
        interval_s=check_interval_s,
        first_delay_s=0.0 if is_first_at_once else None,
        is_at_fixed_rate=False,
    )
    if not on_offsets:
        return [cycle]
    offsets = service(
        "txmq-offsets",
        on_offsets,
        interval_s=settings.persist_consumer_offset_interval_ms / 1000,
        first_delay_s=OFFSETS_FIRST_DELAY_S,
        is_at_fixed_rate=True,
    )
    return [cycle, offsets]


def _service(
    name: str,
    works: Iterable[Work],
    *,
    warehouse: Warehouse,
    settings: Settings,
    listeners: Listeners,
    locks: defaultdict[str, Lock],
    wall_clock: Callable[[], datetime],
    interval_s: float,
    first_delay_s: float | None,
    is_at_fixed_rate: bool,
) -> PeriodicService:
    # What a MERGE is told and how small a pass is stand in the session: two threads must not share one.
    own = Warehouse(session_beside(warehouse.spark, settings), warehouse.uri)
    own.is_looked_after = warehouse.is_looked_after
    steps = [
        Step(work.name, partial(_alone, locks[work.job], work, own, wall_clock), partial(work.is_due, own))
        for work in works
    ]

    def work() -> float | None:
        _enter(own.spark, name)
        with own.looking_once():
            return run_round(steps, listeners, is_stopped=lambda: service.is_stopped)

    def interrupt() -> None:
        own.on_write = own.on_part = _leave_off
        Thread(target=_cancel_while_alive, args=(own.spark, service), daemon=True).start()

    service = PeriodicService(
        name,
        work,
        interval_s=interval_s,
        first_delay_s=first_delay_s,
        is_at_fixed_rate=is_at_fixed_rate,
        interrupt=interrupt,
        on_failure=partial(listeners.lost, name),
    )
    return service


def _alone(lock: Lock, work: Work, warehouse: Warehouse, wall_clock: Callable[[], datetime]) -> PassReport:
    # Both threads land and roll up; two passes of one job would do the same work twice.
    with lock:
        return work.run(warehouse, wall_clock())


def _enter(spark: SparkSession, tag: str) -> None:
    """This thread's jobs carry its tag, and what asks for the active session gets its own."""
    spark.sparkContext.addJobTag(tag)
    set_active(spark)


def _cancel_while_alive(spark: SparkSession, service: PeriodicService) -> None:
    # A pass has many jobs, one after the other.
    while service.is_alive and is_session_alive(spark):
        spark.sparkContext.cancelJobsWithTag(service.name)
        time.sleep(CANCEL_EVERY_S)


def _leave_off(table: str, step: str) -> None:
    raise LeftOff(f"left off behind {table} {step}; the next start carries the pass on")
