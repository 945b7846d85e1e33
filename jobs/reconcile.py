"""spark-submit jobs/reconcile.py [--now T] [--dry-run]. Takes the global options of `txmq`."""

from __future__ import annotations

import sys

from txmq_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["reconcile", *sys.argv[1:]]))
