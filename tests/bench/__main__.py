"""`make bench`: run the benchmarks, print a table, leave a JSON file, end with 1 where a ratio is lost."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.bench import figures as figures_of_run
from tests.bench.bench import Bench, Run
from tests.bench.figures import Figure
from tests.bench.machine import machine, versions

BENCHMARKS = ("backfill", "history", "checks", "resolve", "late", "offsets", "landing", "small")
# Of so few rows history is no history: that it costs nothing only a full run tells.
OF_SIZE = {"small": tuple(name for name in BENCHMARKS if name != "history"), "full": BENCHMARKS}


def main() -> int:
    """1 where a ratio is lost by more than half, else 0."""
    options = _options()
    chosen = options.only or OF_SIZE[options.size]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="txmq-bench-") as place, Run(options.size, Path(place), _say) as run:
        for name in chosen:
            scratch = Path(place, name)
            scratch.mkdir()
            figures += import_module(f"tests.bench.{name}").run(Bench(name, run, scratch))
            shutil.rmtree(scratch)
    limits = figures_of_run.thresholds(options.size)
    facts = {"size": options.size, "versions": versions(), "machine": machine()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = {**facts, "figures": figures_of_run.as_json(figures, limits), "processes": run.processes}
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    lost = figures_of_run.lost(figures, limits)
    _tell(figures, limits, facts, run.processes)
    for line in lost:
        sys.stderr.write(f"lost: {line}\n")
    return 1 if lost else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--size", choices=[*OF_SIZE], default="small")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="one benchmark; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="the JSON file")
    options = parser.parse_args()
    for name in options.only or ():
        if name not in OF_SIZE[options.size]:
            parser.error(f"{name} has no size {options.size}: give --size full")
    return options


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _tell(figures: list[Figure], limits: dict[str, float], facts: dict[str, Any], processes: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(figures_of_run.table(figures, limits))
    for name, values in facts.items():
        shown = values if isinstance(values, str) else ", ".join(f"{key} {value}" for key, value in values.items())
        console.print(f"{name}: {shown}")
    peaks = {name: process["peak_mib"] for name, process in processes.items()}
    for name, peak in peaks.items():
        console.print(f"peak memory of {name}: " + ", ".join(f"{kind} {size} MiB" for kind, size in peak.items()))


if __name__ == "__main__":
    sys.exit(main())
