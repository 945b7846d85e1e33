"""Each kind of hostile input landed by `txmq` with its default settings: what became of it, and the most memory it took.

`make hostile`: a line per input. Memory is the resident memory of the command, its JVM and all workers together; what they share counts once. Status 1
where it is more than --most MiB, a good row is missing, what was too large is not told of, or the command fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from hostile.inputs import INPUTS, Hostile

MIB = 1 << 20
TXMQ = str(Path(sys.executable).with_name("txmq"))


@dataclass(frozen=True)
class Outcome:
    """What became of one input."""

    status: int
    peak_mib: int
    seconds: float
    good: int
    reasons: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("--only", default="", help="inputs whose name contains this")
    parser.add_argument("--most", type=int, default=3 << 10, help="MiB")
    options = parser.parse_args()
    print(f"{'input':44}{'status':>7}{'MiB':>7}{'seconds':>9}{'good':>7}  quarantined", flush=True)  # noqa: T201
    failed = 0
    for hostile in INPUTS:
        if options.only not in hostile.name:
            continue
        with tempfile.TemporaryDirectory(prefix="txmq-hostile-") as scratch:
            found = landed(hostile, Path(scratch))
        wrong = (
            found.status
            or found.peak_mib > options.most
            or (found.good, found.reasons)
            != (
                hostile.good,
                hostile.reasons,
            )
        )
        failed += bool(wrong)
        reason_counts = (
            ", ".join(f"{reason} x {found.reasons.count(reason)}" for reason in sorted(set(found.reasons))) or "-"
        )
        print(  # noqa: T201
            f"{hostile.name:44}{found.status:7}{found.peak_mib:7}{found.seconds:9.1f}{found.good:7}  {reason_counts}"
            + ("  NOT AS IT SHOULD BE" if wrong else ""),
            flush=True,
        )
    return int(failed > 0)


def landed(hostile: Hostile, scratch: Path) -> Outcome:
    """Land it, then reconcile and audit what landed, each by a command of its own."""
    warehouse, place = scratch / "warehouse", scratch / "input"
    place.mkdir()
    kind, path = hostile.make(place)
    begun = time.monotonic()
    peak, status = 0, 0
    environment = {**os.environ, **hostile.environment}
    for command in (["land", kind, str(path), "--broker", "b"], *[[job] for job in hostile.then]):
        command_line = [TXMQ, "--warehouse", str(warehouse), "--set", "role=audit", *command]
        taken, ended = watched(command_line, environment, scratch / "told.txt")
        peak, status = max(peak, taken), status or ended
        if ended:
            sys.stderr.write((scratch / "told.txt").read_text(encoding="utf-8", errors="replace")[-2000:])
    rows = DeltaTable(str(warehouse / hostile.table)).to_pyarrow_dataset().count_rows()
    reasons = DeltaTable(str(warehouse / "quarantine")).to_pyarrow_dataset().to_table(["reason"])["reason"].to_pylist()
    return Outcome(status, peak // MIB, time.monotonic() - begun, rows, sorted(reasons))


def watched(command: list[str], environment: dict[str, str], output: Path) -> tuple[int, int]:
    """The most bytes that the command and all it started held at once, looked at ten times a second; its status."""
    with output.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, held(process.pid))
            time.sleep(0.1)
        return peak, process.returncode


def held(root: int) -> int:
    """Bytes of memory that a process and all below it hold together: what several share counts once."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has just ended
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(_share(pid) for pid in family if not _is_about_to_begin(pid, parents.get(pid, 0)))


def _share(pid: int) -> int:
    """Its resident bytes, those that it shares by their part."""
    with suppress(OSError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
    return 0


def _is_about_to_begin(pid: int, parent: int) -> bool:
    """Whether it still runs in the memory of the one that starts it, as a JVM's children do for a moment."""
    with suppress(OSError):
        lines = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (pid, parent)]
        sizes = [Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[0] for each in (pid, parent)]
        return lines[0] == lines[1] and sizes[0] == sizes[1]
    return False


if __name__ == "__main__":
    sys.exit(main())
