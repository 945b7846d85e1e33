"""spark-submit jobs/land.py KIND PATH... --broker NAME: what `txmq land` does, with its options and the global ones."""

from __future__ import annotations

import sys

from txmq_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["land", *sys.argv[1:]]))
