"""Runs the fault matrix and prints its table; exit status 1 where anything differs: `make faults`."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import crash
from matrix import Matrix, all_faults
from rich.console import Console
from rich.table import Table
from signals_matrix import COLUMNS, MOMENTS, Trials, named


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many random kills (200)")
    parser.add_argument("--only", default="", help="only the faults whose name contains this")
    parser.add_argument(
        "--moments", type=int, default=MOMENTS, help="at how many moments commands are sent a signal (10)"
    )
    parser.add_argument("--states", type=int, default=0, help="of a power cut, at most so many a step, by chance (all)")
    parser.add_argument("--unsynced", action="store_true", help="power cuts as if nothing were synced and mended")
    parser.add_argument("--minutes", type=float, default=math.inf, help="how long commands are sent signals (all)")
    options = parser.parse_args()
    console = Console(width=140)
    table = Table("fault", "times", "rows lost", "rows too many", "seen", title="Fault matrix")
    is_sound = True
    with tempfile.TemporaryDirectory(prefix="txmq-faults-") as place:
        faults = {name: fault for name, fault in all_faults(options.kills).items() if options.only in name}
        commands = list(named(options.only))
        cuts = [name for name in crash.CUTS if options.only in name]
        if not faults and not commands and not cuts:
            parser.error(f"no fault's name contains {options.only!r}")
        matrices: dict[str, Matrix] = {}
        for scenario, fault in faults.values():
            if scenario not in matrices:
                matrices[scenario] = Matrix(Path(place, scenario), scenario)
                console.print(f"{scenario}, undisturbed: {matrices[scenario].told()}")
            outcome = fault(matrices[scenario])
            is_sound &= not outcome.rows_lost and not outcome.rows_twice
            told = [outcome.fault, *map(str, (outcome.times, outcome.rows_lost, outcome.rows_twice))]
            console.print(*told, *outcome.notes, sep=" | ")
            table.add_row(*told, "; ".join(outcome.notes))
        by_cut = Table(*crash.COLUMNS, title="Power cuts")
        is_sound &= _cut_off(Path(place), cuts, options, console, by_cut)
        by_signals = Table(*COLUMNS, title="Commands ended by signals")
        if commands:
            trials = Trials(Path(place), commands, options.moments)
            for told in trials.run(options.minutes):
                console.print(told, markup=False, soft_wrap=True)
            trials.close()
            for counted in trials.counted.values():
                is_sound &= counted.is_sound
                by_signals.add_row(*counted.row())
    if faults:
        console.print(table)
    if cuts:
        console.print(by_cut)
    if commands:
        console.print(by_signals)
    return 0 if is_sound else 1


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
