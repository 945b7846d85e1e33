"""How long status and read views take on a large warehouse, as whole processes.

`python -m tests.bench.views [DIRECTORY] [--share 0.1]` keeps the warehouse in DIRECTORY and takes it again next time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.large_warehouse import END, LARGE, Scale, write_warehouse
from tests.bench.taken import taken

ROOT = Path(__file__).resolve().parents[2]
RUNS = 3
NOW = END.strftime("%Y-%m-%dT%H:%M:%SZ")
COMMANDS = (
    "status",
    "pending --group GID_7",
    "pending --older-than 29d --group GID_7",
    "pending --key order-100",
    "checks --topic Topic3",
    "given-up --since 1d",
    "messages --topic Topic3",
    "messages --key order-100",
    "messages --since 1h --format json",
    "messages --topic Topic3 --limit 5 --format json",
    "ends --state refused",
    "ends --since 1h",
    "verdicts --state conflict",
    "verdicts --group GID_7",
    "verdicts --since 1h",
    "verdicts --transaction-id 7F0000010001000000000000000000989680",
    "offsets --group CG_3 --state beyond_end",
    "passes --job audit",
    "quarantine --reason OP_TAG",
    "trace 7F0000010001000000000000000000000011",
)


def main() -> None:
    """Write the warehouse where there is none, then time every command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.views")
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--share", type=float, default=1.0, help="part of a full-size warehouse")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="txmq-bench-") as scratch:
        directory = Path(options.directory or scratch) / "warehouse"
        if not directory.exists():
            begun = time.monotonic()
            write_warehouse(directory, Scale(**{name: int(rows * options.share) for name, rows in LARGE.items()}))
            sys.stdout.write(f"warehouse written in {time.monotonic() - begun:.0f} s\n")
        for command in COMMANDS:
            runs = [seconds_of(directory, command) for _ in range(RUNS)]
            wall, processor = (statistics.median(seconds) for seconds in zip(*runs, strict=True))
            sys.stdout.write(f"{wall:6.2f} s, processor {processor:5.2f} s  {command}\n")
            sys.stdout.flush()


def seconds_of(directory: Path, command: str) -> tuple[float, float]:
    """Wall and processor seconds of one command from the start of its process; the latter tell on a busy machine."""
    code = "import sys; from txmq_lib.cli import main; sys.exit(main(sys.argv[1:]))"
    now = [] if command.startswith("trace") else ["--now", NOW]
    arguments = [sys.executable, "-c", code, "--warehouse", str(directory), *command.split(), *now]
    with taken() as found:
        subprocess.run(arguments, cwd=ROOT, capture_output=True, check=True)
    return found["seconds"], found["processor"]


if __name__ == "__main__":
    main()
