"""The Java that Spark will run on: found and judged before Spark would fail with a trace. Starts no JVM of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from txmq_lib.errors import EnvironmentFault

OLDEST = 17
_ADVICE = f"install a Java runtime (JDK or JRE) of version {OLDEST} or newer, or point JAVA_HOME at one"


def require_java() -> Path:
    """The `java` that Spark's own scripts will start, if new enough; EnvironmentFault in one sentence where not."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise EnvironmentFault(f"Spark needs Java {OLDEST} or newer and there is none: {_ADVICE}.")
    java = Path(found)
    if not java.is_file():
        raise EnvironmentFault(f"Spark needs Java {OLDEST} or newer and JAVA_HOME={home} has no bin/java: {_ADVICE}.")
    version = _release_version(java) or _asked_version(java)
    if version is None:
        raise EnvironmentFault(f"Spark needs Java {OLDEST} or newer and {java} does not run: {_ADVICE}.")
    if version < OLDEST:
        raise EnvironmentFault(f"Spark needs Java {OLDEST} or newer and {java} is version {version}: {_ADVICE}.")
    return java


def _release_version(java: Path) -> int | None:
    """The version a JDK states in a file of its own: a thousand times quicker than asking it."""
    release = java.resolve().parent.parent / "release"
    return _major(r'^JAVA_VERSION="([\d.]+)', release.read_text(encoding="utf-8")) if release.is_file() else None


def _asked_version(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(r'version "([\d.]+)', done.stderr)


def _major(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1].removeprefix("1.").split(".")[0]) if match else None  # Java 8 calls itself 1.8


def main() -> int:
    """`python -m txmq_lib.spark.java`: status 0, or one sentence on stderr and the status of its error."""
    try:
        require_java()
    except EnvironmentFault as fault:
        sys.stderr.write(f"{fault.message}\n")
        return fault.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
