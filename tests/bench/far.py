"""What commands and passes ask of an S3 server, and take: on a fresh warehouse, after more than 1,000 small passes with the
upkeep that `run` does, just before it does it again, and after a maintain behind them.

`PYTHONPATH=tests/support python -m tests.bench.far [DIRECTORY]` keeps the warehouses in DIRECTORY and takes them again next
time. MinIO, built by Go, stands behind a proxy that waits before each request. On a busy machine compare requests, how many of
them follow one another, and processor seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import minio
from far_passes import FarPasses
from pyarrow.fs import LocalFileSystem, copy_files
from s3_proxy import S3Proxy, Seen, s3_proxy

from tests.bench.history import ROWS_PER_PASS, prepare
from tests.bench.processes import Process
from tests.bench.warehouses import copied, create, opened, wall_clock
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.pipeline.upkeep_plan import DUE_AFTER_PASSES

# A round is a pass of reconcile and one of audit, so upkeep comes behind half as many rounds as passes.
MAINTAINED_EACH = DUE_AFTER_PASSES // 2
PASSES = (1_000 // DUE_AFTER_PASSES + 1) * MAINTAINED_EACH - 1
FRESH, PASSED, MAINTAINED = "fresh", "passes", "maintained"
PASTS = {FRESH: 0, PASSED: PASSES, MAINTAINED: PASSES}
DELAYS_S = (0.0, 0.02)
ROUNDS, WARM_UP = 3, 2
IDLE, WITH_HALVES = ("beside", "cycle"), ("halves", "pass", "halves here", "pass here")
CLASSES = "spark.spark.driver.extraClassPath"
# How often each is run; the transaction is of the past, as tests.bench.data numbers them.
COMMANDS = {"--version": 3, "status": 3, "pending": 3, "trace C000020246654E0E0000000000000539": 3, "run": 1}


@dataclass(frozen=True)
class Taken:
    """One measurement: what was asked, wall seconds, processor seconds."""

    seen: Seen
    seconds: float
    processor: float


def main() -> None:
    """Make the warehouses that are missing, then measure, a line each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.far")
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--only", choices=PASTS, action="append")
    parser.add_argument("--session", action="store_true", help="no commands, only passes in a warm session")
    parser.add_argument("--idle", action="store_true", help="no passes of 1,000 halves")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="txmq-bench-") as scratch:
        place = options.directory or Path(scratch)
        place.mkdir(exist_ok=True)
        chosen = options.only or list(PASTS)
        for name in chosen:
            if not (place / name).exists():
                make(place, name)
        with minio.minio(Path(scratch, "minio")) as server, s3_proxy(server.port) as proxy:
            os.environ.update(minio.environ(proxy.url))
            for name in chosen:
                copy_files(
                    str(place / name), f"{minio.BUCKET}/{name}", LocalFileSystem(), minio.file_system(server.port)
                )
                measure(place, name, proxy, only_session=options.session, is_idle=options.idle)


def make(place: Path, name: str) -> None:
    """The warehouse of a name, on this disk."""
    begun = time.monotonic()
    made = place / f"{name}.made"
    with Process(place) as process:
        if name == MAINTAINED:
            copied(place / PASSED, made)
            process.call(maintain, path=str(made))
        else:
            process.call(create, path=str(made))
            process.call(fill, path=str(made), passes=PASTS[name])
    made.rename(place / name)
    tell(f"{name}: made in {time.monotonic() - begun:.0f} s")


def fill(path: str, passes: int) -> None:
    """What so many passes leave in a warehouse."""
    if passes:
        prepare(*opened(path), passes * ROWS_PER_PASS, passes, MAINTAINED_EACH)


def maintain(path: str) -> None:
    """One run of upkeep."""
    run_maintain(*opened(path), wall_clock=wall_clock, tell=lambda _: None)


def measure(place: Path, name: str, proxy: S3Proxy, *, only_session: bool, is_idle: bool) -> None:
    """Every figure of one warehouse."""
    uri, classes = f"s3a://{minio.BUCKET}/{name}", ":".join(map(str, minio.jars()))
    for command, runs in ({} if only_session else COMMANDS).items():
        for delay_s in DELAYS_S:
            proxy.set(delay_s=delay_s)
            words = ["--set", f"{CLASSES}={classes}", "--warehouse", uri, *command.split()]
            tell_middle(f"{name}, txmq {command.split()[0]}", delay_s, [called(proxy, words) for _ in range(runs)])
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        here = copied(place / name, Path(scratch, "here"))
        passes = FarPasses(uri, classes, PASTS[name] * ROWS_PER_PASS // 1_000 + 1, str(here))
        try:
            _measure_passes(name, passes, proxy, IDLE if is_idle else (*WITH_HALVES, *IDLE))
        finally:
            passes.close()


def _measure_passes(name: str, passes: FarPasses, proxy: S3Proxy, steps: tuple[str, ...]) -> None:
    proxy.set(delay_s=0.0)
    for _ in range(WARM_UP):
        for step in steps:
            passes.ask(step)
    for delay_s in DELAYS_S:
        proxy.set(delay_s=delay_s)
        taken: dict[str, list[Taken]] = {step: [] for step in steps}
        for _ in range(ROUNDS):
            for step, of_step in taken.items():
                of_step.append(stepped(passes, proxy, step))
        for step, of_step in taken.items():
            tell_middle(f"{name}, {step}", delay_s, of_step)


def stepped(passes: FarPasses, proxy: S3Proxy, step: str) -> Taken:
    """A step of a session, measured."""
    with proxy.counting() as seen:
        facts = passes.ask(step)
    return Taken(seen, facts["seconds"], facts["processor"])


def called(proxy: S3Proxy, words: list[str]) -> Taken:
    """A whole command, measured."""
    begun, before = time.monotonic(), os.times()
    with proxy.counting() as seen:
        done = subprocess.run([Path(sys.executable).with_name("txmq"), *words], check=False, capture_output=True)
    assert done.returncode in (0, 1), done.stderr.decode()[-2000:]  # 1: trace knows nothing of it
    after = os.times()
    processor = after.children_user - before.children_user + after.children_system - before.children_system
    return Taken(seen, time.monotonic() - begun, processor)


def tell_middle(name: str, delay_s: float, taken: list[Taken]) -> None:
    """A line of medians."""
    requests = median(each.seen.total for each in taken)
    waits = median(each.seen.waits for each in taken)
    seconds, processor = median(each.seconds for each in taken), median(each.processor for each in taken)
    tell(
        f"{name}, {delay_s * 1000:.0f} ms: {requests:.0f} requests, {waits:.0f} in a row, {seconds:.2f} s, "
        f"processor {processor:.2f} s, load {os.getloadavg()[0]:.1f}; the last: {taken[-1].seen}"
    )


def tell(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
