"""`make licences`: the licence of every locked package, told by its own metadata; status 1 where one is not known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from locks import HERE, needed_for

# Those that txmq may be used and passed on with. LGPL and MPL bind who changes the package itself.
ACCEPTED = (
    "MIT",
    "0BSD",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Apache-2.0",
    "ISC",
    "Zlib",
    "CC0-1.0",
    "PSF-2.0",
    "MPL-2.0",
    "LGPL-3.0-only",
)
# What older metadata calls them.
CALLED = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
HEAD = """# Licences

Made by `make licences` from what each package says of itself; that fails where a licence is none of those it accepts.
txmq is under Apache-2.0. Of the packages that a run needs only PostgreSQL's driver, which is optional, and certifi are
under others than permissive ones. Delta's two jars are under Apache-2.0; Spark's jars, which come within pyspark, under
what `licenses` in that package tells.

| package | version | licence | needed for |
|---|---|---|---|
"""


def of_environment(python: str) -> set[tuple[str, str, str]]:
    """Name, version and licence of each package that is installed beside `python`."""
    command = [Path(sys.executable).with_name("pip-licenses"), "--python", python, "--from=mixed", "--format=json"]
    packages = json.loads(subprocess.run([*command, "--with-system"], capture_output=True, check=True).stdout)
    return {(package["Name"], package["Version"], spdx(package["License"])) for package in packages}


def spdx(said: str) -> str:
    """A licence as SPDX names it, as far as it is known by another name."""
    return "; ".join(CALLED.get(part, part) for part in said.split("; "))


def is_accepted(licence: str) -> bool:
    """Whether each part of an expression is a licence of ACCEPTED."""
    words = licence.replace(";", " ").replace("(", " ").replace(")", " ").split()
    return bool(words) and all(word in (*ACCEPTED, "AND", "OR") for word in words)


def main() -> int:
    """Write the list; name what is not known."""
    found = of_environment(sys.executable) | of_environment(sys.argv[1])
    rows = sorted(
        (name.lower(), name, version, licence) for name, version, licence in found if needed_for(name, version)
    )
    lines = [
        f"| {name} | {version} | {licence} | {needed_for(name, version)} |\n" for _, name, version, licence in rows
    ]
    (HERE / "licences.md").write_text(HEAD + "".join(lines), encoding="utf-8")
    refused = [f"{name} {version}: {licence}" for _, name, version, licence in rows if not is_accepted(licence)]
    for line in refused:
        sys.stderr.write(f"not a licence that is accepted: {line}\n")
    sys.stdout.write(f"{len(rows)} packages, {len(refused)} of them with a licence that is not accepted\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
