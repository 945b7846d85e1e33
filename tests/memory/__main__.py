"""Memory of `serve` over many cycles, after garbage collection, as lines of JSON: `make memory`.

Status 1 where the driver's heap or the Python process has grown between the first figure and the last by more than --growth.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from engine_model import End, Half, Transaction
from histories import end_row, half_row

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import PassReport
from txmq_lib.service.rounds import Listeners, Step
from txmq_lib.service.service import services
from txmq_lib.spark.session import build_session

MIB = 1 << 20
HALVES = 5
KINDS = ("half", "end", "offset")
COMMIT, ROLLBACK = 8, 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1_000, help="figures are of a tenth, a half and all of them")
    parser.add_argument("--idle", action="store_true", help="nothing lands after the first cycle")
    parser.add_argument("--growth", type=float, default=64, help="MiB")
    options = parser.parse_args()
    at = sorted({options.cycles // 10, options.cycles // 2, options.cycles} - {0})
    with tempfile.TemporaryDirectory(prefix="txmq-memory-") as scratch:
        figures = measured(Path(scratch), at, is_idle=options.idle)
    grown = {name: figures[-1][name] - figures[0][name] for name in ("heap_mib", "python_mib")}
    return int(any(mib > options.growth for mib in grown.values()))


def measured(scratch: Path, at: list[int], *, is_idle: bool) -> list[dict[str, Any]]:
    """What is held after so many cycles of the service, told as it goes."""
    settings = _settings(scratch)
    spark = build_session("txmq memory", settings)
    warehouse = Warehouse(spark, settings.warehouse)
    warehouse.ensure()
    done = Event()

    def report(step: str, _: PassReport) -> None:
        if step == "audit":
            done.set()

    def failure(step: Step, error: str, _: float) -> None:
        sys.stderr.write(f"{step.name}: {error}\n")
        os._exit(3)

    def lost(service: str, error: Exception) -> None:
        sys.stderr.write(f"{service}: {error}\n")
        os._exit(3)

    cycle, offsets = services(
        warehouse,
        settings,
        wall_clock=lambda: datetime.now(UTC),
        environ={},
        listeners=Listeners(report, failure, lost),
        is_first_at_once=True,
    )
    figures = []
    _put_input(scratch, 0)
    cycle.start()
    offsets.start()
    for number in range(1, at[-1] + 1):
        done.wait()
        if number in at:
            figures.append({"cycle": number, "is_idle": is_idle, **_held(spark)})
            sys.stdout.write(json.dumps(figures[-1]) + "\n")
            sys.stdout.flush()
        if not is_idle:
            _put_input(scratch, number)
        done.clear()
        cycle.wakeup()
    for service in (cycle, offsets):
        service.shutdown()
    spark.stop()
    return figures


def _settings(scratch: Path) -> Settings:
    for kind in KINDS:
        (scratch / kind).mkdir()
    sources = ", ".join(f"{{kind: {kind}, broker: b, paths: [{scratch / kind}]}}" for kind in KINDS)
    own = (
        f"sources=[{sources}]",
        "transaction_check_interval=1h",  # each cycle is woken
        "spark.spark.master=local[2]",
        "spark.spark.driver.memory=1g",
        f"spark.spark.local.dir={scratch}",
    )
    return Settings.load([conf_dir() / "few-rows.yaml"], own, str(scratch / "warehouse"))


def _put_input(scratch: Path, number: int) -> None:
    """Halves with their ends and an offset report, in the place of what landed before."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    halves = [_half(number * HALVES + one, now_ms) for one in range(HALVES)]
    ends = [
        End(half.stored_ms + 1, "G", half.offset, half.place, (COMMIT, ROLLBACK)[half.offset % 2], False)
        for half in halves
    ]
    report = {"ts": now_ms, "group": "C", "topic": "T", "queueId": 0, "offset": number, "clientId": "c"}
    rows_of_kind = {
        "half": [half_row(half) for half in halves],
        "end": [end_row(end) for end in ends],
        "offset": [report],
    }
    for kind, rows in rows_of_kind.items():
        before = list((scratch / kind).glob("*.jsonl"))
        half_way = scratch / f"{kind}.tmp"
        half_way.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        half_way.rename(scratch / kind / f"{number}.jsonl")
        for path in before:
            path.unlink()


def _half(offset: int, now_ms: int) -> Half:
    return Half(Transaction(f"T{offset}", "G", now_ms), offset, offset * 1_000, now_ms + 1, "T", 0, None, "body")


def _held(spark: Any) -> dict[str, Any]:
    """MiB after garbage collection: the JVM's heap, and what it holds beside it; resident memory of both processes."""
    gc.collect()
    jvm = spark.sparkContext._jvm
    for _ in range(2):  # what the first frees from Python's hands, the second collects
        jvm.System.gc()
    management = jvm.java.lang.management.ManagementFactory
    heap = management.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    beside = management.getMemoryMXBean().getNonHeapMemoryUsage().getUsed()
    return {
        "heap_mib": round(heap / MIB, 1),
        "beside_heap_mib": round(beside / MIB, 1),
        "jvm_mib": _resident_mib(management.getRuntimeMXBean().getPid()),
        "python_mib": _resident_mib(os.getpid()),
    }


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return round(kib / 1024, 1)


if __name__ == "__main__":
    sys.exit(main())
