"""Puts each listed mutant into a copy of the library and runs the tests that must see it: `make mutants`.

Exit status 1 where one survives, or no longer fits the text it was made for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from listed import MUTANTS, Mutant
from places import place_of

ROOT = Path(__file__).parents[2]
COPIED = ("txmq_lib", "tests", "conf", "schemas", "jobs", "pyproject.toml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="only mutants whose file, function or description contains this")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in f"{file_of(mutant)} {mutant.place} {mutant.what}"]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="txmq-mutants-") as place:
        house = Path(place)
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, house / name)
        for number, mutant in enumerate(chosen, start=1):
            begun = time.monotonic()
            verdict = tried(house, mutant)
            if not verdict.startswith("killed"):
                survivors.append(mutant)
            print(  # noqa: T201 - the list is what this command is for
                f"{number:3}/{len(chosen)} {verdict:10} {mutant.place}: {mutant.what} ({time.monotonic() - begun:.0f} s)", flush=True
            )  # fmt: skip
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")  # noqa: T201
    return 1 if survivors else 0


def file_of(mutant: Mutant) -> str:
    """Where the function of a mutant stands; nowhere for a misfit."""
    try:
        return str(place_of(ROOT / "txmq_lib", mutant.place).file.relative_to(ROOT))
    except LookupError:
        return ""


def tried(house: Path, mutant: Mutant) -> str:
    """`killed` where a test goes red, `SURVIVED`, or `MISFIT` where its text is not there exactly once."""
    try:
        place = place_of(house / "txmq_lib", mutant.place)
    except LookupError:
        return "MISFIT"
    path, text = place.file, place.text()
    if text.count(mutant.old) != 1:
        return "MISFIT"
    whole = path.read_text(encoding="utf-8")
    path.write_text(place.with_text(text.replace(mutant.old, mutant.new)), encoding="utf-8")
    try:
        tests = [f"tests/{name}" for name in mutant.tests]
        environment = {**os.environ, "PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1", "TXMQ_HISTORIES": "100"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
    finally:
        path.write_text(whole, encoding="utf-8")
    if done.returncode == 0:
        return "SURVIVED"
    # A mutant that cannot even be imported shows nothing. One that ends the process by a signal (SIGSEGV) is seen.
    return (
        "killed"
        if done.returncode < 0 or (done.returncode == 1 and "ERROR collecting" not in done.stdout)
        else "BROKEN"
    )


if __name__ == "__main__":
    sys.exit(main())
