"""The wheel tried in a fresh environment with the oldest, or the newest, packages that pyproject.toml allows.

`python supply/ranges.py oldest` makes build/ranges/oldest, runs the demo from the wheel and the fast tests that need no
Spark, and tells what was installed. Packages come from the index of pip's configuration, not from the locks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OLDEST = re.compile(r"(?P<name>[\w-]+)(?:\[\w+\])?[>=]=(?P<version>[\w.]+)")
TOOLS = ("pytest", "chispa", "hypothesis", "playwright", "ruff")
TESTS = ("tests/plain", "tests/views")


def oldest() -> list[str]:
    """Each package that a run needs, in the oldest version that is allowed."""
    needed = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["postgresql"]]
    found = [OLDEST.match(requirement) for requirement in needed]
    return [f"{each['name']}=={each['version']}" for each in found if each is not None]


def call(*command: str | Path, **options: object) -> None:
    """Runs a command of this checkout; its failure is ours."""
    sys.stderr.write(f"+ {' '.join(map(str, command))}\n")
    subprocess.run([str(part) for part in command], check=True, cwd=options.pop("cwd", ROOT), **options)  # type: ignore[call-overload]


def tried(end: str) -> None:
    """Makes the environment of one end and tries the wheel in it."""
    place = ROOT / "build" / "ranges" / end
    python = place / "bin" / "python"
    call(sys.executable, "-m", "venv", "--clear", place)
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    build = [line for line in PROJECT["dependency-groups"]["build"] if isinstance(line, str)]
    call(*pip, "install", *build)
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place / "wheel", ROOT)
    (wheel,) = (place / "wheel").glob("txmq-*.whl")
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(oldest()) if end == "oldest" else "", encoding="utf-8")
    dev = [line for line in PROJECT["dependency-groups"]["dev"] if isinstance(line, str) and line.startswith(TOOLS)]
    call(*pip, "install", "--no-build-isolation", "--constraint", constraints, f"{wheel}[postgresql]", *dev)
    call(python, "-m", "pip", "check")
    call(python, "-m", "pip", "list", "--format", "freeze")
    call(python, "-m", "txmq_lib.spark.jars", cwd=place)
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        call(place / "bin" / "txmq", "demo", cwd=scratch, env=environment)
    call(python, "-m", "pytest", "--quiet", *TESTS)


if __name__ == "__main__":
    for end in sys.argv[1:] or ("oldest", "newest"):
        tried(end)
