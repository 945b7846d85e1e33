"""`make fuzz`: hostile input by the hundred thousand, a line per surface; status 1 where anything escaped."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz import landing, ops, passes, traces
from fuzz.surfaces import SURFACES
from fuzz.tally import Tally, run
from house import House

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.spark.session import build_session

SHOWN_ESCAPES = 3


def main() -> int:
    """Run every surface and tell what escaped."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--cases", type=int, default=200_000, help="inputs per decoder; rare surfaces take a share")
    parser.add_argument("--lines", type=int, default=50_000, help="lines of the landing contract, all kinds together")
    parser.add_argument("--seed", type=int, default=1, help="another seed tries other inputs")
    parser.add_argument("--only", default="", help="surfaces whose name contains this")
    options = parser.parse_args()
    print(f"{'surface':32}{'tried':>9}{'escaped':>9}{'seconds':>9}{'longest':>9}{'MiB':>7}", flush=True)  # noqa: T201
    escaped = 0
    for surface in SURFACES:
        if options.only in surface.name:
            escaped += tell(run(surface, options.cases, options.seed))
    with TemporaryDirectory() as scratch:
        for name, work in spark_surfaces(Path(scratch), options.lines, options.seed, options.only):
            escaped += tell(_caught(name, work))
    return int(escaped > 0)


def spark_surfaces(scratch: Path, lines: int, seed: int, only: str) -> list[tuple[str, Callable[[], Tally]]]:
    """The surfaces that need Spark; no session where none is asked for."""
    names = [name for name in (*landing.JUDGED, "op bodies", "trace bodies", "whole passes") if only in name]
    if not names:
        return []
    spark = build_session("txmq-fuzz", Settings.load(assignments=["spark.spark.master=local[2]"]))
    share = max(1, lines // len(landing.JUDGED))
    settings = Settings.load(assignments=list(passes.SETTINGS), warehouse=str(scratch / "it's a [warehouse] {1}"))

    def work(name: str) -> Tally:
        if name in landing.JUDGED:
            return landing.run_lines(spark, scratch, name, share, seed)
        if name == "op bodies":
            return ops.run_ops(spark, share, seed)
        if name == "trace bodies":
            return traces.run_traces(spark, share, seed)
        return passes.run_passes(House(Warehouse(spark, settings.warehouse), scratch, settings), 200, seed)

    return [(name, lambda name=name: work(name)) for name in names]


def _caught(name: str, work: Callable[[], Tally]) -> Tally:
    try:
        return work()
    except Exception:
        return Tally(name, tried=1, escapes=[traceback.format_exc(limit=-8)])


def tell(tally: Tally) -> int:
    """One line, and the first few escapes; how many there are."""
    print(  # noqa: T201
        f"{tally.surface:32}{tally.tried:9}{len(tally.escapes):9}{tally.seconds:9.1f}"
        f"{tally.longest_seconds:9.2f}{tally.peak_mib:7}",
        flush=True,
    )
    for escape in tally.escapes[:SHOWN_ESCAPES]:
        print(escape[:3000].encode("utf-8", "backslashreplace").decode(), flush=True)  # noqa: T201
    return len(tally.escapes)


if __name__ == "__main__":
    sys.exit(main())
