"""How each place that grows does grow: three sizes each, in wall and processor seconds and in memory.

`python -m tests.bench.scale [--only PLACE] [--small]`. A place is measured in a process of its
own, which does the smallest size first, uncounted: starting and compiling would hide the slope. Its memory is the most
that it held so far, Python, JVM and workers. On a busy machine compare processor seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import scale_inputs, scale_passes
from tests.bench.processes import MIB, Called, Process, sampled
from tests.bench.warehouses import copied, create

SMALL = 10  # what sizes are divided by


@contextmanager
def nothing_besides(_: int) -> Iterator[dict[str, Any]]:
    """What most places need besides their directory."""
    yield {}


@dataclass(frozen=True)
class Place:
    """A place that grows.

    what     what there is so much of
    prepare  fills a directory, whose warehouse `w` has empty tables: path, size
    work     does the work in it, and tells its wall and processor seconds: path, size
    besides  what has to be there meanwhile for a size, and what `work` is told of it
    """

    what: str
    sizes: tuple[int, int, int]
    prepare: Callable[[str, int], None]
    work: Callable[..., dict[str, float]]
    besides: Callable[[int], AbstractContextManager[dict[str, Any]]] = nothing_besides


PLACES = {
    "acknowledgements": Place(
        "acknowledgements rolled up before, one is new",
        (20_000, 100_000, 500_000),
        scale_passes.rolled_up_acks,
        scale_passes.roll_up,
    ),
    "broker-offsets": Place(
        "offset commits of a broker, ten entries of its table moved",
        (100_000, 500_000, 2_500_000),
        scale_passes.offsets_of_broker,
        scale_passes.land_offsets,
    ),
    "one-queue": Place(
        "commits to one real queue",
        (20_000, 100_000, 400_000),
        scale_passes.commits_to_one_queue,
        scale_passes.reconcile,
    ),
    "pending": Place(
        "transactions that a pass asks about",
        (20_000, 80_000, 320_000),
        scale_passes.asked_once,
        scale_passes.ask_again,
    ),
    "ops": Place(
        "new halves and as many new op messages",
        (50_000, 200_000, 800_000),
        scale_passes.halves_and_ops,
        scale_passes.reconcile_audited,
    ),
    "decisions": Place(
        "transactions of one `hold`",
        (1_000, 10_000, 50_000),
        scale_passes.undecided,
        scale_passes.hold,
    ),
    "maintain": Place("small files of a table", (20, 100, 1_000), scale_passes.small_files, scale_passes.maintain),
    "files": Place(
        "files of JSON lines, 20,000 lines together", (20, 100, 500), scale_inputs.lines, scale_inputs.land_lines
    ),
    "store": Place("new records of a store", (30_000, 120_000, 480_000), scale_inputs.store, scale_inputs.land_store),
    "queues": Place(
        "consume queues of a store, a record each",
        (100, 1_000, 10_000),
        scale_inputs.store_of_queues,
        scale_inputs.land_store,
    ),
    "brokers": Place(
        "live brokers, 200 new messages each",
        (1, 4, 16),
        scale_inputs.nothing,
        scale_inputs.land_brokers,
        scale_inputs.live_brokers,
    ),
    "table-files": Place(
        "files in a table's checkpoint, at a first look",
        (1_000, 10_000, 100_000),
        scale_inputs.table_log,
        scale_inputs.look_first,
    ),
    "view-files": Place(
        "data files that `messages --topic` reads", (10, 100, 1_000), scale_inputs.message_files, scale_inputs.view
    ),
}


def main() -> None:
    """Measure every place that was asked for, a line for each size."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale")
    parser.add_argument("--only", choices=PLACES, action="append")
    parser.add_argument("--small", action="store_true", help="sizes a tenth, to try it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="txmq-bench-") as made:
        scratch = Path(made)
        with Process(scratch) as preparing:
            preparing.call(create, path=str(scratch / "empty"))
            for name in options.only or PLACES:
                place = PLACES[name]
                sizes = [max(size // SMALL, 1) for size in place.sizes] if options.small else list(place.sizes)
                measure(scratch, name, place, sizes, preparing)


def measure(scratch: Path, name: str, place: Place, sizes: Sequence[int], preparing: Process) -> None:
    """Prepare a place in all sizes, then measure each, the smallest twice: once to warm up."""
    begun, home = time.monotonic(), scratch / name
    here = home / "tmp"
    here.mkdir(parents=True)
    warm, *prepared = [home / f"{number}" for number in range(len(sizes) + 1)]
    for path, size in zip(prepared, sizes, strict=True):
        copied(scratch / "empty", path / "w")
        preparing.call(place.prepare, path=str(path), size=size)
    copied(prepared[0], warm)
    tell(f"{name}, {place.what}: prepared in {time.monotonic() - begun:.0f} s")
    with temporary_files_at(here), Process(home) as process:
        for path, size in zip((warm, *prepared), (sizes[0], *sizes), strict=True):
            with place.besides(size) as more, _most_bytes(here) as most:
                called = process.call(place.work, path=str(path), size=size, **more)
            tell_taken(f"{name}, {size:,}{' to warm up' if path == warm else ''}", called, most[0])
            shutil.rmtree(path)
    shutil.rmtree(home)


@contextmanager
def temporary_files_at(directory: Path) -> Iterator[None]:
    """Processes started inside put their temporary files there."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(directory)
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before


@contextmanager
def _most_bytes(directory: Path) -> Iterator[list[int]]:
    """The most bytes that files under `directory` took while the block ran."""
    most = [0]

    def look() -> None:
        most[0] = max(most[0], _bytes(directory))

    with sampled(look):
        yield most


def _bytes(directory: Path) -> int:
    taken = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                taken += os.stat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                continue  # it went meanwhile
    return taken


def tell_taken(name: str, called: Called, most_bytes: int) -> None:
    """A line of the result, and one of its steps."""
    steps = dict(called.result)
    tell(
        f"{name}: {steps.pop('seconds'):.2f} s, processor {steps.pop('processor'):.2f} s, "
        f"{called.peak_mib.get('all', 0)} MiB (JVM {called.peak_mib.get('jvm', 0)}), "
        f"TMPDIR {most_bytes // MIB} MiB, load {os.getloadavg()[0]:.1f}"
    )
    if steps:
        tell(f"    {steps}")


def tell(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
