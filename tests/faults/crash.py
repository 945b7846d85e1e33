"""Every job cut off by a power cut: each legal state of the disk built, the step run again in it, every table compared."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import driver
from contents import contents, differences
from crash_states import Contents, build, recorded
from scenario import ASSIGNMENTS, RESOLVERS, Step, write_inputs

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import TxmqError
from txmq_lib.passes import ready, runner, writer
from txmq_lib.spark.session import build_session

COLUMNS = ("job", "writer", "states", "rows lost", "rows too many", "refused", "carried on", "seen")
SHOWN = 4


@dataclass
class Crashed:
    """What was seen of one job."""

    job: str
    by: str
    states: int = 0
    lost: int = 0
    twice: int = 0
    refused: int = 0
    mended: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost or there twice."""
        return not (self.lost or self.twice)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.states, self.lost, self.twice, self.refused, self.mended)
        return [self.job, self.by, *map(str, counts), "; ".join(self.notes[:SHOWN])]


class CrashStates:
    """Steps of a scenario, each recorded and replayed in every state (or `most` of them, picked by chance)."""

    def __init__(
        self, place: Path, scenario: str, *, by_spark: bool = False, before: bool = False, most: int = 0
    ) -> None:
        self._place, self._most, self._before = place, most, before
        self._inputs = place / "inputs"
        self._steps = write_inputs(self._inputs, 4, scenario)
        assignments = [*ASSIGNMENTS, *RESOLVERS, *driver.SPARK, *driver.UPKEEP]
        self._settings = Settings.load([conf_dir() / "few-rows.yaml"], assignments, warehouse=str(place / "chain"))
        self._spark = build_session("txmq-faults", self._settings)
        self._by = "Spark" if by_spark else "deltalake"
        if by_spark:
            runner.SMALL_PASS_BYTES = writer.FEW_ROWS = -1
        if before:
            ready.mend_after_power_cut = lambda uri, say: None

    def run(self, jobs: Sequence[str] = ()) -> Iterator[Crashed]:
        """The scenario step by step; a line for each job, that of its last step that is looked at."""
        counted: dict[str, Crashed] = {}
        chain = self._place / "chain"
        for step in self._steps:
            warehouse = Warehouse(self._spark, str(chain))
            with recorded(warehouse, counts_syncs=not self._before) as recording:
                driver.run(warehouse, self._settings, self._inputs, step)
            if jobs and step.job not in jobs:
                continue
            expected = contents(chain)
            one = counted.setdefault(step.job, Crashed(step.job, self._by))
            states = list(recording.states())
            if self._most and len(states) > self._most:
                states = random.Random(7).sample(states, self._most)
            for told, state in states:
                self._replay(one, step, told, state, expected)
            yield one

    def _replay(self, one: Crashed, step: Step, told: str, state: Contents, expected: dict[str, Counter[str]]) -> None:
        place = self._place / f"state-{one.job}-{self._by}-{one.states}"
        place.mkdir()
        build(place, state)
        one.states += 1
        try:
            driver.run(Warehouse(self._spark, str(place)), self._settings, self._inputs, step)
        except TxmqError as error:
            one.refused += 1
            one.notes.append(f"{told}: refused: {error.code}")
            return
        except Exception as error:  # what is no word of ours helps nobody: the step cannot be carried on
            one.lost += 1
            one.notes.append(f"{told}: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
            return
        finally:
            one.mended += (place / "_set_aside").exists()
        for table, (lost, extra) in differences(expected, contents(place)).items():
            if table == "pass" and not lost:
                continue  # it had been committed, and was done once more for nothing
            one.lost, one.twice = one.lost + lost, one.twice + extra
            one.notes.append(f"{told}: {table}: {lost} lost, {extra} too many")
        shutil.rmtree(place)
