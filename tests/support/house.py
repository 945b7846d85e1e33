"""A warehouse and the jobs on it as plain calls, for tests that run whole passes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from moment import NOW
from truth import CAPTURES

from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.land.job import run_land_files, run_land_store
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.rollup.job import run_rollup

BROKER = "oracle-a"


def wall_clock() -> datetime:
    """A wall clock that stands still: nothing may depend on it."""
    return datetime(2026, 11, 21, 13, 0, tzinfo=UTC)


class Killed(BaseException):
    """Stands for a killed process: nothing may catch it."""


def dying_after(write: int | str) -> Callable[[str, str], None]:
    """A hook that raises Killed after the n-th write, or after that of this step."""
    seen: list[str] = []

    def hook(table: str, step: str) -> None:
        seen.append(step)
        if write in (len(seen), step):
            raise Killed(f"{table} {step}")

    return hook


def failing_once() -> Callable[..., None]:
    """In the place of `Pass._write_through_conflicts`: the first write fails, as on a disk that was full for a moment."""
    write, failed = Pass._write_through_conflicts, list[bool]()

    def fail(self: Pass, *rest: Any) -> None:
        if failed:
            return write(self, *rest)
        failed.append(True)
        raise OSError("no space left")

    return fail


@dataclass
class House:
    """One warehouse and the jobs on it."""

    warehouse: Warehouse
    scratch: Path
    settings: Settings
    written: int = field(default=0)

    def land(self, kind: str, *paths: Path, broker: str = BROKER, now: datetime = NOW) -> PassReport:
        """Land files."""
        names = [str(path) for path in paths]
        return run_land_files(
            self.warehouse, self.settings, kind=kind, paths=names, broker_name=broker, now=now, wall_clock=wall_clock
        )

    def land_rows(self, kind: str, rows: Iterable[Any], **options: Any) -> PassReport:
        """Land rows (objects, or texts as they are) as a file of JSON lines."""
        self.written += 1
        path = self.scratch / f"{kind}-{self.written}.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8") as lines:
            lines.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        return self.land(kind, path, **options)

    def land_capture(self, capture: str, **files: str) -> None:
        """Land files of a capture: kind -> file name without ending, where the capture has it."""
        for kind, name in files.items():
            path = CAPTURES / capture / f"{name}.jsonl.gz"
            if path.exists():
                self.land(kind.replace("_", "-"), path)

    def land_store(self, path: Path, *, broker: str = BROKER, now: datetime = NOW, **options: Any) -> PassReport:
        """Land a store directory."""
        arguments = {"path": str(path), "broker_name": broker, "now": now, "wall_clock": wall_clock}
        return run_land_store(self.warehouse, self.settings, **arguments, **options)

    def reconcile(self, now: datetime = NOW, **options: Any) -> PassReport:
        """One reconcile pass."""
        return run_reconcile(self.warehouse, self.settings, now=now, wall_clock=wall_clock, **options)

    def rollup(self, now: datetime = NOW) -> PassReport:
        """One rollup pass."""
        return run_rollup(self.warehouse, self.settings, now=now, wall_clock=wall_clock)

    def audit(self, now: datetime = NOW) -> PassReport:
        """One audit pass."""
        return run_audit(self.warehouse, self.settings, now=now, wall_clock=wall_clock)

    @contextmanager
    def killed_after(self, write: int | str) -> Iterator[None]:
        """The job inside dies right after its n-th write, or after the step of that name has landed, and must die."""
        with self.on_write(dying_after(write)), pytest.raises(Killed):
            yield

    @contextmanager
    def writing(self) -> Iterator[list[str]]:
        """The steps that the jobs inside write, in order."""
        steps: list[str] = []
        with self.on_write(lambda table, step: steps.append(step)):
            yield steps

    @contextmanager
    def on_write(self, hook: Callable[[str, str], None]) -> Iterator[None]:
        """Call the hook with table and step right after each write of the jobs inside."""
        before, self.warehouse.on_write = self.warehouse.on_write, hook
        try:
            yield
        finally:
            self.warehouse.on_write = before

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return [row.asDict(recursive=True) for row in self.warehouse.read(table).collect()]

    def versions(self) -> dict[str, int]:
        """The Delta version of every table but the pass log."""
        return {name: self.warehouse.version(name) for name in table_specs() if name != "pass"}


def said_of_brokers(house: House) -> dict[tuple[str, str], tuple[str, str]]:
    """Verdict and reason of each transaction, by broker and id."""
    return {(row["broker_name"], row["transaction_id"]): (row["verdict"], row["reason"])
            for row in house.rows("verdict")}  # fmt: skip
