"""What one pass over live brokers is to read: all are asked at once, and those that have news take part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError, UnreachableError, UsageError
from txmq_lib.passes.pass_log import last_note
from txmq_lib.pipeline.land import unchanged_inputs
from txmq_lib.pipeline.land.broker_state import check_cursors
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.landing_pass import JOB
from txmq_lib.pipeline.land.live import broker_plan
from txmq_lib.pipeline.land.live.broker_reading import BrokerReading
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker
from txmq_lib.pipeline.land.live.live_ranges import KnownQueue
from txmq_lib.rocketmq.remoting.broker import Queue

BROKERS_AT_ONCE = 16


@dataclass(frozen=True)
class Asking:
    """How brokers are asked what there is to read; `brokers_now` asks the name servers for those of some names."""

    settings: Settings
    now: datetime
    brokers_now: Callable[[str], list[LiveBroker]]

    def plans(
        self, known: Mapping[str, Mapping[Queue, KnownQueue]], readings: Sequence[BrokerReading]
    ) -> list[dict[str, Any]]:
        """The plan of each broker that can be read; what another one meets is told. RemotingError where none can be."""
        with ThreadPoolExecutor(min(len(readings), BROKERS_AT_ONCE)) as threads:
            plans = list(threads.map(lambda reading: self._plan_if_read(known, reading), readings))
        failures = [reading.failure for reading in readings if reading.failure is not None]
        if len(failures) == len(readings):
            raise failures[0]
        return [plan for plan in plans if plan is not None]

    def _plan_if_read(
        self, known: Mapping[str, Mapping[Queue, KnownQueue]], reading: BrokerReading
    ) -> dict[str, Any] | None:
        try:
            return self._plan(known, reading)
        except RemotingError as failure:
            reading.forget()
            reading.failure = failure
            reading.tell(f"not read: {failure.message}")
            return None

    def _plan(self, known: Mapping[str, Mapping[Queue, KnownQueue]], reading: BrokerReading) -> dict[str, Any]:
        try:
            return broker_plan.plan(known, self.settings, reading, self.now)
        except UnreachableError:
            broker = self._found_again(reading.broker.name)
            if broker is None or broker.address in (None, reading.broker.address):
                raise
        before, reading.broker = reading.broker.address, broker
        plan = broker_plan.plan(known, self.settings, reading, self.now)
        reading.tell(f"its master moved from {before} to {broker.address}")
        return plan

    def _found_again(self, name: str) -> LiveBroker | None:
        """A broker that was listed before; None where it has left the name servers since, as one that is stopped
        does."""
        try:
            (broker,) = self.brokers_now(name)
        except UsageError:
            return None
        return broker


def plan_all(warehouse: Warehouse, asking: Asking, readings: Sequence[BrokerReading]) -> dict[str, Any]:
    """What a pass over these brokers is to read, of those that have news. RemotingError where none can be read."""
    plans = asking.plans(broker_plan.known_queues(warehouse, [reading.broker.name for reading in readings]), readings)
    landed = unchanged_inputs.known(warehouse, asking.settings, last_note(warehouse, warehouse.log("pass"), JOB))
    of_name = {reading.broker.name: reading for reading in readings}

    def has_news(plan: Mapping[str, Any]) -> bool:
        if plan["queues"] or plan["untold"]:
            return True
        if not unchanged_inputs.have_landed(landed, {"kind": ROCKETMQ, "brokers": [plan]}):
            return True
        reading = of_name[plan["broker_name"]]
        checks = check_cursors.Checks(asking.now, None, passed=reading.passed)
        return reading.offsets is None and check_cursors.is_news(
            warehouse, asking.settings, plan["broker_name"], checks
        )

    return {"kind": ROCKETMQ, "brokers": [plan for plan in plans if has_news(plan)]}
