"""A progress bar over what Spark is doing, on stderr and only where that is a terminal. Must not touch results."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from pyspark import StatusTracker
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

POLL_SECONDS = 0.2


class SparkProgress:
    """Context of a long command: a label, then, once `watch` is called, running stages and their tasks."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task(f"{label}: starting Spark", total=None)

    def __enter__(self) -> SparkProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
        if not self._bar.disable:  # rich 13 ends one that never began with an empty line
            self._bar.stop()

    def step(self, label: str) -> None:
        """What the next Spark jobs are for."""
        self._label = label

    def watch(self, tracker: StatusTracker) -> None:
        """Follow a SparkContext until the command is over."""
        if not self._bar.disable:
            self._thread = threading.Thread(target=self._follow, args=(tracker,), daemon=True)
            self._thread.start()

    def _follow(self, tracker: StatusTracker) -> None:
        while not self._done.wait(POLL_SECONDS):
            try:
                stages, finished, tasks = running(tracker)
            except Exception:
                # The context went before the command did: nothing left to show.
                return
            line = f"{self._label}: {stages} stages, {finished} of {tasks} tasks" if stages else self._label
            self._bar.update(self._task, description=line, total=tasks or None, completed=finished)


def running(tracker: StatusTracker) -> tuple[int, int, int]:
    """Stages running now, with their finished tasks and all their tasks."""
    infos = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    return len(infos), sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)
