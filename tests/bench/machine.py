"""What figures depend on: versions, cores, memory. No path, no name of a host."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("pyspark", "delta-spark", "deltalake", "duckdb", "polars", "pyarrow")


def versions() -> dict[str, str]:
    """Python, Java and the packages that are measured."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    java = re.search(r'version "([^"]+)"', done)
    found = {"python": platform.python_version(), "java": java[1] if java else "unknown"}
    return found | {package: version(package) for package in PACKAGES}


def machine() -> dict[str, str | int | float]:
    """Cores this process may use, memory in GiB, kind of processor."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / (1 << 20), 1) if memory else 0.0,
        "processor": model[1].strip() if model else platform.machine(),
    }
