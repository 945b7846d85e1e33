"""`make vulnerabilities`: known vulnerabilities of the locked packages, as pip-audit finds them.

Status 0: every package was looked up and none has any. 1: some have. 3: not all could be looked up: no good news.
pip-audit itself takes a package that nobody tells it of for a good one; here a source must first know a vulnerable one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from locks import HERE, NEEDED_FOR

SOURCES = ("pypi", "osv")
# A sandbox escape of 2019: whoever does not tell of it is no source.
KNOWN_BAD = ("jinja2", "2.10", "CVE-2019-10906")
FOUND, NOT_LOOKED_UP = 1, 3


def audit(source: str, requirements: Path) -> list[dict[str, Any]]:
    """What pip-audit tells of each package of a lock, from one source; empty where the source cannot be asked."""
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", source, *sys.argv[1:], "--format", "json"]
    command += ["--aliases", "on", "--progress-spinner", "off", "--disable-pip", "--require-hashes", "--requirement"]
    audit = subprocess.run([*command, str(requirements)], capture_output=True, text=True, check=False)
    try:
        return list(json.loads(audit.stdout)["dependencies"])
    except (ValueError, KeyError):
        return []


def knows_vulnerabilities(source: str) -> bool:
    """Whether the source tells of one that everybody knows."""
    name, version, vulnerability = KNOWN_BAD
    with tempfile.TemporaryDirectory() as scratch:
        bad = Path(scratch, "bad.txt")
        bad.write_text(f"{name}=={version} --hash=sha256:{'0' * 64}\n", encoding="utf-8")
        found = [each for package in audit(source, bad) for each in package.get("vulns", ())]
    return any(vulnerability in (each["id"], *each["aliases"]) for each in found)


def main() -> int:
    """Ask the first source that knows anything."""
    source = next(filter(knows_vulnerabilities, SOURCES), None)
    if source is None:
        sys.stderr.write(
            f"NOT LOOKED UP: neither {' nor '.join(SOURCES)} could be asked, or does not know {KNOWN_BAD[2]} of"
            f" {KNOWN_BAD[0]} {KNOWN_BAD[1]}. Nothing is known of any package: try again where they are reached,"
            " or give build/sbom.json (make sbom) to a scanner that has a database of its own.\n"
        )
        return NOT_LOOKED_UP
    packages = {}
    for lock in NEEDED_FOR:
        for package in audit(source, HERE / lock) or [{"name": f"all of {lock}", "skip_reason": "no answer"}]:
            packages[package["name"], package.get("version")] = package
    bad = [package for package in packages.values() if package.get("vulns")]
    skipped = [package for package in packages.values() if "vulns" not in package]
    for package in bad:
        for each in package["vulns"]:
            mended = ", ".join(each["fix_versions"]) or "no version"
            names = ", ".join((each["id"], *each["aliases"]))
            sys.stdout.write(f"{package['name']} {package['version']}: {names}; mended in {mended}\n")
    for package in skipped:
        sys.stderr.write(f"NOT LOOKED UP: {package['name']}: {package.get('skip_reason')}\n")
    sys.stdout.write(
        f"{len(packages)} packages, {len(bad)} with known vulnerabilities, {len(skipped)} not looked up ({source});"
        " jars are not among them: give build/sbom.json (make sbom) to a scanner that knows Maven's\n"
    )
    return FOUND if bad else NOT_LOOKED_UP if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
