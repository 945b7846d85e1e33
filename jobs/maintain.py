"""spark-submit jobs/maintain.py [--dry-run]. Takes the global options of `txmq`."""

from __future__ import annotations

import sys

from txmq_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["maintain", *sys.argv[1:]]))
