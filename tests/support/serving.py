"""`txmq serve` as a process, its health file, and the tables it fills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable

TXMQ = str(Path(sys.executable).with_name("txmq"))
LIMIT_S = 180.0


@contextmanager
def serving(place: Path, *options: str) -> Iterator[subprocess.Popen]:
    """A process that serves by `serve.yaml` in `place`; killed, its JVM too, where it is still there in the end."""
    log = (place / "serve.log").open("ab")
    process = subprocess.Popen(
        [TXMQ, "--conf", "conf/few-rows.yaml", "--conf", str(place / "serve.yaml"), "serve",
         "--health-file", str(place / "health.json"), *options],
        stderr=log, stdout=log, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(what: Callable[[], object], place: Path, *, seconds: float = LIMIT_S) -> object:
    """Wait for something; what serve said last is the error where it does not come."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError((place / "serve.log").read_text()[-3000:])


def health(place: Path) -> dict:
    """What the health file says; no state where there is none yet."""
    path = place / "health.json"
    return json.loads(path.read_text()) if path.exists() else {"state": "", "steps": {}}


def written(path: Path, rows: list[dict]) -> Path:
    """A file of JSON lines that serve lands."""
    path.parent.mkdir(exist_ok=True)
    # Whoever lists the directory must never see half a file.
    half_way = path.with_suffix(".tmp")
    half_way.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return half_way.rename(path)


def rows(place: Path, table: str) -> list[dict]:
    """All rows of a table of the warehouse in `place`; none where it does not exist yet."""
    return rows_in(str(place / "warehouse"), table)


def rows_in(warehouse: str, table: str) -> list[dict]:
    """All rows of a table; none where it does not exist yet."""
    path = f"{warehouse}/{table}"
    return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []


def open_passes(place: Path) -> set[tuple[str, int]]:
    """Passes that were started and have not ended."""
    states: dict[str, set[tuple[str, int]]] = {"started": set(), "ended": set()}
    for row in rows(place, "pass"):
        states["started" if row["state"] == "started" else "ended"].add((row["job"], row["pass_number"]))
    return states["started"] - states["ended"]
