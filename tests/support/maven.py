"""Jars of Maven Central, in Maven's own store."""

from __future__ import annotations

import subprocess
from pathlib import Path

LONGEST_FETCH_S = 1_800


def jar(package: str) -> Path:
    """The jar of a package, GROUP:NAME:VERSION, without what it needs itself; fetched where it is missing."""
    group, name, version = package.split(":")
    found = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not found.is_file():
        command = ["mvn", "-q", "dependency:get", f"-Dartifact={package}", "-Dtransitive=false"]
        subprocess.run(command, check=True, timeout=LONGEST_FETCH_S)
    return found
