"""spark-submit jobs/audit.py [--now T]. Takes the global options of `txmq`."""

from __future__ import annotations

import sys

from txmq_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["audit", *sys.argv[1:]]))
