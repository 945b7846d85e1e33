"""Kills between a file of a table that is written and the commit that names it: in the driver, and inside Spark's tasks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from txmq_lib.delta.arrow_files import TableFile
from txmq_lib.pipeline.land.files import line_landing
from txmq_lib.pipeline.land.store import log_landing

# Of one step: the first, the second. Where there are more, each is as the one before.
MOST_OF_A_STEP = 2
TASK_BYTES = 1 << 10


@dataclass(frozen=True)
class Kills:
    """Kills the processes of `group` at each point that `listed` has not; `step` is that of the scenario."""

    listed: Path
    group: int
    step: int

    def reached(self, where: str, table: str) -> None:
        """A file of the table was written, and no commit names it yet."""
        seen = self.listed.read_text(encoding="utf-8").splitlines() if self.listed.exists() else []
        point = f"file {where} {self.step} {table}"
        if seen.count(point) >= MOST_OF_A_STEP:
            return
        with self.listed.open("a", encoding="utf-8") as points:
            points.write(point + "\n")
            points.flush()
            os.fsync(points.fileno())
        os.killpg(self.group, signal.SIGKILL)


@contextmanager
def watched(kills: Callable[[], Kills], where: str) -> Iterator[None]:
    """Within it each file that is finished is a point."""
    finish = TableFile.finish

    def then_reached(self: TableFile) -> Any:
        files = finish(self)
        if files:
            kills().reached(where, Path(self._root).name)
        return files

    TableFile.finish = then_reached  # type: ignore[method-assign]
    try:
        yield
    finally:
        TableFile.finish = finish  # type: ignore[method-assign]


def kill_at_every_file(listed: Path, here: list[int]) -> None:
    """From now on this process is killed at each file that it, or one of its tasks, has written; here: the step."""

    def kills() -> Kills:
        return Kills(listed, os.getpgrp(), here[0])

    watched(kills, "driver").__enter__()
    for module in (line_landing, log_landing):
        module.in_tasks = partial(_in_tasks, module.in_tasks, kills)
    line_landing.LEAST_TASK_BYTES = TASK_BYTES


def _in_tasks(in_tasks: Callable[..., Any], kills: Callable[[], Kills], spark: Any, work: Any, parts: Any) -> Any:
    return in_tasks(spark, partial(_in_a_task, kills(), work), parts)


def _in_a_task(kills: Kills, work: Callable[[Any], Any], part: Any) -> Any:
    if os.getpgrp() == kills.group:
        return work(part)  # the only part: done by the driver
    with watched(lambda: kills, "task"):
        return work(part)
