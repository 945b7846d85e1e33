"""Runs the fault matrix and prints its table; exit status 1 where anything differs: `make faults`."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import cluster
import crash
import lost
import orders
import orders_on_s3
import two_drivers
from matrix import Matrix, all_faults
from rich.console import Console
from rich.table import Table
from signals_matrix import COLUMNS, MOMENTS, ROUNDS, Trials, named

# What needs an S3 server, by how the names of its faults begin: what its table shows and is called, and the names.
ON_S3 = {
    "drivers": (two_drivers.COLUMNS, "Two drivers on S3", [two_drivers.named(*pair) for pair in two_drivers.PAIRS]),
    "s3-orders": (orders.COLUMNS, "Two jobs at once on S3", [orders_on_s3.named(*pair) for pair in orders.PAIRS]),
    "lost": (lost.COLUMNS, "Answers of S3 lost", [lost.named(job) for job in lost.JOBS]),
    "cluster": (cluster.COLUMNS, "A cluster on S3", ["cluster"]),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many random kills (200)")
    parser.add_argument("--only", default="", help="only the faults whose name contains this")
    parser.add_argument(
        "--moments", type=int, default=MOMENTS, help="at how many moments commands are sent a signal (10)"
    )
    parser.add_argument(
        "--states",
        type=int,
        default=0,
        help="of power cuts, orders and lost answers, at most so many each, by chance (all)",
    )
    parser.add_argument("--unsynced", action="store_true", help="power cuts as if nothing were synced and mended")
    parser.add_argument("--on-s3", type=int, default=10, help="rounds of two drivers on S3, for each pair of jobs (10)")
    parser.add_argument("--held", type=float, default=2.0, help="seconds that commits are held there (2)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="how long commands are sent signals (all)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each is sent one at each moment, each time another (6)"
    )
    parser.add_argument(
        "--from-round", type=int, default=1, help="the first of them, where others were done before (1)"
    )
    parser.add_argument("--shard", default="1/1", help="K/N: of the commands that are sent signals this share (1/1)")
    parser.add_argument("--quick", action="store_true", help="of these only such as start no JVM")
    parser.add_argument("--at-once", type=int, default=1, help="so many of those beside each other (1)")
    options = parser.parse_args()
    console = Console(width=140)
    table = Table("fault", "times", "rows lost", "rows too many", "seen", title="Fault matrix")
    is_sound = True
    with tempfile.TemporaryDirectory(prefix="txmq-faults-") as place:
        faults = {name: fault for name, fault in all_faults(options.kills).items() if options.only in name}
        commands = named(options.only, options.shard, is_quick=options.quick)
        cuts = [name for name in crash.CUTS if options.only in name]
        pairs = [pair for pair in orders.PAIRS_HERE if options.only in orders.named(*pair)]
        on_s3 = _named_on_s3(options.only)
        if not (faults or commands or cuts or pairs or on_s3):
            parser.error(f"no fault's name contains {options.only!r}")
        matrices: dict[str, Matrix] = {}
        for scenario, fault in faults.values():
            if scenario not in matrices:
                matrices[scenario] = Matrix(Path(place, scenario), scenario)
                console.print(f"{scenario}, undisturbed: {matrices[scenario].told()}")
            outcome = fault(matrices[scenario])
            is_sound &= not outcome.rows_lost and not outcome.rows_twice
            cells = [outcome.fault, *map(str, (outcome.times, outcome.rows_lost, outcome.rows_twice))]
            console.print(*cells, *outcome.notes, sep=" | ")
            table.add_row(*cells, "; ".join(outcome.notes))
        by_cut = Table(*crash.COLUMNS, title="Power cuts")
        is_sound &= _cut_off(Path(place), cuts, options, console, by_cut)
        by_order = Table(*orders.COLUMNS, title="Two jobs at once")
        is_sound &= _in_orders(Path(place), pairs, options, console, by_order)
        by_s3 = {name: Table(*ON_S3[name][0], title=ON_S3[name][1]) for name in on_s3}
        is_sound &= _on_s3(Path(place), options, console, by_s3)
        by_signals = Table(*COLUMNS, title="Commands ended by signals")
        is_sound &= _by_signals(Path(place), commands, options, console, by_signals)
    if faults:
        console.print(table)
    if pairs:
        console.print(by_order)
    if cuts:
        console.print(by_cut)
    for each in by_s3.values():
        console.print(each)
    if commands:
        console.print(by_signals)
    return 0 if is_sound else 1


def _by_signals(
    place: Path, commands: Sequence[str], options: argparse.Namespace, console: Console, table: Table
) -> bool:
    """The named commands ended by signals; whether all was as told."""
    if not commands:
        return True
    trials = Trials(place, commands, options.moments, options.at_once)
    for line in trials.run(options.minutes, options.rounds, options.from_round):
        console.print(line, markup=False, soft_wrap=True)
    trials.close()
    for counted in trials.counted.values():
        table.add_row(*counted.row())
    return all(counted.is_sound for counted in trials.counted.values())


def _in_orders(
    place: Path, pairs: Sequence[tuple[str, str]], options: argparse.Namespace, console: Console, table: Table
) -> bool:
    """Pairs of jobs in the orders of their writes; whether all ended as one after the other."""
    is_sound = True
    for seen in orders.run(place / "orders", pairs, options.states) if pairs else ():
        is_sound &= seen.is_sound
        console.print(*seen.row(), sep=" | ", markup=False, soft_wrap=True)
        table.add_row(*seen.row())
    return is_sound


def _named_on_s3(only: str) -> list[str]:
    """What is on S3 where it is asked for by name, from its beginning: MinIO takes minutes to build."""
    return [
        name for name, (*_, faults) in ON_S3.items() if only.startswith(name) and any(only in one for one in faults)
    ]


def _on_s3(place: Path, options: argparse.Namespace, console: Console, tables: Mapping[str, Table]) -> bool:
    """What is on S3, as far as there are tables for it; whether all was sound."""
    runs: dict[str, Callable[[Path], Iterable[two_drivers.Rounds | orders.Ordered | lost.Lost | cluster.Downs]]] = {
        "drivers": lambda where: two_drivers.run(where, options.only, options.on_s3, options.held),
        "s3-orders": lambda where: orders_on_s3.run(where, options.only, options.states),
        "lost": lambda where: lost.run(where, options.only, options.states),
        "cluster": lambda where: [cluster.run(where)],
    }
    is_sound = True
    for name, table in tables.items():
        for seen in runs[name](place / name):
            is_sound &= seen.is_sound
            console.print(*seen.row(), sep=" | ", markup=False, soft_wrap=True)
            table.add_row(*seen.row())
    return is_sound


def _cut_off(place: Path, names: Sequence[str], options: argparse.Namespace, console: Console, table: Table) -> bool:
    """Power cuts in the named scenarios; whether no row was lost or there twice."""
    is_sound = True
    for name in names:
        where = place / name
        where.mkdir()
        for crashed in crash.run(where, name, most=options.states, unsynced=options.unsynced):
            is_sound &= crashed.is_sound
            console.print(*crashed.row(), sep=" | ", markup=False, soft_wrap=True)
            table.add_row(*crashed.row())
    return is_sound


if __name__ == "__main__":
    sys.exit(main())
