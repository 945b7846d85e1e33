"""Every job cut off by a power cut: each legal state of the disk built, the step run again in it, every table compared."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import driver
import pytest
from contents import contents, differences
from crash_states import Recording, build, files_that_count, recorded
from scenario import ASSIGNMENTS, BY_HAND, RESOLVERS, WHOLE, Step, write_inputs

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import TxmqError
from txmq_lib.passes import damage, ready, runner, writer
from txmq_lib.spark.session import build_session

# Scenario, and whether passes work as those of many rows do.
CUTS = {
    "crash": (WHOLE, False),
    "crash-by-spark": (WHOLE, True),
    "crash-by-hand": (BY_HAND, False),
    "crash-by-hand-by-spark": (BY_HAND, True),
}
COLUMNS = ("job", "writer", "states", "carried on", "rows lost", "rows too many", "refused", "mended", "seen")
SHOWN = 4


@dataclass(frozen=True)
class Ended:
    """How a step ended that was run again after a power cut."""

    lost: int = 0
    twice: int = 0
    refusal: str = ""
    what: str = ""

    @property
    def is_well(self) -> bool:
        """Whether all is there, once."""
        return not (self.lost or self.twice or self.refusal)


@dataclass
class Crashed:
    """What was seen of one job."""

    job: str
    by: str
    states: int = 0
    distinct: int = 0
    lost: int = 0
    twice: int = 0
    refused: int = 0
    mended: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost or there twice."""
        return not (self.lost or self.twice)

    def add(self, state_name: str, ended: Ended) -> None:
        """Count one more state."""
        self.states += 1
        self.lost, self.twice, self.refused = (
            self.lost + ended.lost,
            self.twice + ended.twice,
            self.refused + bool(ended.refusal),
        )
        if not ended.is_well:
            self.notes.append(f"{state_name}: {f'refused: {ended.refusal}' if ended.refusal else ended.what}")

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.states, self.distinct, self.lost, self.twice, self.refused, self.mended)
        return [self.job, self.by, *map(str, counts), "; ".join(self.notes[:SHOWN])]


def run(place: Path, name: str, *, most: int = 0, unsynced: bool = False) -> Iterator[Crashed]:
    """The steps of one of CUTS, the newest of each job looked at: each in every state, or in `most` picked by chance.

    unsynced  as before durable.py: nothing is synced, and no start looks for damage
    """
    scenario, by_spark = CUTS[name]
    with pytest.MonkeyPatch.context() as patched:
        if by_spark:
            patched.setattr(runner, "SMALL_PASS_BYTES", -1)
            patched.setattr(writer, "FEW_ROWS", -1)
        patched.setattr(damage, "this_boot", lambda: "another")
        if unsynced:
            patched.setattr(ready, "mend_after_power_cut", lambda uri, say: None)
        cuts = _Cuts(place, scenario, "Spark" if by_spark else "deltalake", counts_syncs=not unsynced)
        yield from cuts.run(most)


def _fallen(error: Exception) -> Ended:
    """What is no word of ours helps nobody: the step cannot be carried on."""
    lines = str(error).splitlines() or [""]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return Ended(lost=1, what=f"{type(error).__name__}: {(causes or lines)[-1 if causes else 0][:200]}")


class _Cuts:
    """A scenario, carried on step by step in one place, each step recorded and replayed in others."""

    def __init__(self, place: Path, scenario: str, by: str, *, counts_syncs: bool) -> None:
        self._place, self._by, self._counts_syncs = place, by, counts_syncs
        self._inputs = place / "inputs"
        self._steps = write_inputs(self._inputs, 4, scenario)
        assignments = [*ASSIGNMENTS, *RESOLVERS, *driver.SPARK, *driver.UPKEEP]
        self._settings = Settings.load([conf_dir() / "few-rows.yaml"], assignments, warehouse=str(place / "chain"))
        self._spark = build_session("txmq-faults", self._settings)

    def run(self, most: int) -> Iterator[Crashed]:
        chain, last = self._place / "chain", {step.job: number for number, step in enumerate(self._steps)}
        for number, step in enumerate(self._steps):
            warehouse = Warehouse(self._spark, str(chain))
            with recorded(chain, warehouse, counts_syncs=self._counts_syncs) as recording:
                driver.run(warehouse, self._settings, self._inputs, step)
            if last[step.job] == number:
                yield self._replayed(step, recording, contents(chain), most)

    def _replayed(self, step: Step, recording: Recording, expected: dict[str, Counter[str]], most: int) -> Crashed:
        one, states = Crashed(step.job, self._by), list(recording.states())
        if most and len(states) > most:
            states = random.Random(7).sample(states, most)
        carried_on: dict[int, Ended] = {}
        for state_name, state in states:
            place = self._place / f"state-{one.job}-{self._by}-{one.states}"
            place.mkdir()
            build(place, state)
            try:
                found = self._mended(place, step, expected, carried_on)
            finally:
                one.mended += (place / "_set_aside").exists()
            one.add(state_name, found)
            if found.is_well:
                shutil.rmtree(place)
        one.distinct = len(carried_on)
        return one

    def _mended(
        self, place: Path, step: Step, expected: dict[str, Counter[str]], carried_on: dict[int, Ended]
    ) -> Ended:
        """How the step ends there. States that are alike once they are mended go on alike: only the first is run."""
        try:
            ready.mend_after_power_cut(str(place), lambda _: None)
        except TxmqError as error:
            return Ended(refusal=error.code)
        except Exception as error:
            return _fallen(error)
        key = hash(frozenset(files_that_count(place).items()))
        if key not in carried_on:
            carried_on[key] = self._carried_on(place, step, expected)
        return carried_on[key]

    def _carried_on(self, place: Path, step: Step, expected: dict[str, Counter[str]]) -> Ended:
        try:
            warehouse = Warehouse(self._spark, str(place))
            warehouse.is_looked_after = True
            driver.run(warehouse, self._settings, self._inputs, step)
            found = differences(expected, contents(place))
        except TxmqError as error:
            return Ended(refusal=error.code)
        except Exception as error:
            return _fallen(error)
        # A pass that had been committed may be done once more for nothing.
        counted = {table: each for table, each in found.items() if table != "pass" or each[0]}
        what = "; ".join(f"{table}: {lost} lost, {extra} too many" for table, (lost, extra) in counted.items())
        return Ended(
            lost=sum(lost for lost, _ in counted.values()), twice=sum(extra for _, extra in counted.values()), what=what
        )
