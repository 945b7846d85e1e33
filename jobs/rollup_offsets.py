"""spark-submit jobs/rollup_offsets.py [--now T]. Takes the global options of `txmq`."""

from __future__ import annotations

import sys

from txmq_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["rollup", *sys.argv[1:]]))
