"""The lock files beside this one: which packages, in which versions, what for."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
NEEDED_FOR = {
    "run.txt": "a run",
    "dev.txt": "tests",
    "bench.txt": "benchmarks",
    "build.txt": "building",
    "tools.txt": "these lists",
}


def plain(name: str) -> str:
    """A distribution's name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(lock: str) -> set[tuple[str, str]]:
    """Name and version of each package of one lock."""
    lines = (HERE / lock).read_text(encoding="utf-8").splitlines()
    pinned = (line.split(" ")[0].partition("==") for line in lines if "==" in line)
    return {(name, version) for name, _, version in pinned}


def needed_for(package: str, version: str) -> str | None:
    """What the package is there for: the first of NEEDED_FOR that has it. None where no lock names it."""
    return next((use for lock, use in NEEDED_FOR.items() if (plain(package), version) in packages(lock)), None)
