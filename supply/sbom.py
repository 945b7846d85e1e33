"""`make sbom`: a CycloneDX list of what a run of txmq consists of: Python's packages, Spark's jars and Delta's."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from locks import HERE, needed_for

ROOT = HERE.parent
DELTA = ("delta-spark_", "delta-storage-")
RUN = "a run"


def of_python(python: str) -> dict[str, Any]:
    """The list of an environment's packages, as cyclonedx-py makes it."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml")]
    command += ["--mc-type", "application", "--output-reproducible", "--spec-version", "1.6", python]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def narrowed(bom: dict[str, Any]) -> dict[str, Any]:
    """Without what only tests and tools need."""
    itself = bom["metadata"]["component"]["bom-ref"]
    bom["components"] = [each for each in bom["components"] if needed_for(each["name"], each["version"]) == RUN]
    kept = {itself, *(each["bom-ref"] for each in bom["components"])}
    bom["dependencies"] = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", ()) if ref in kept]}
        for each in bom["dependencies"]
        if each["ref"] in kept
    ]
    return bom


def of_jar(jar: Path) -> dict[str, Any]:
    """A jar under its Maven name where it or its file tells that, else under its file's."""
    found = {"type": "library", "bom-ref": jar.name, "name": jar.stem}
    if (own := maven_name(jar)) is not None:
        group, name, version = own
        found |= {"group": group, "name": name, "version": version, "purl": f"pkg:maven/{group}/{name}@{version}"}
    return {**found, "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(jar.read_bytes()).hexdigest()}]}


def maven_name(jar: Path) -> tuple[str, str, str] | None:
    """Group, artifact and version. A jar with others within tells of several: its own fits its file's name."""
    if jar.name.startswith(DELTA):
        name, _, version = jar.stem.rpartition("-")
        return "io.delta", name, version
    with zipfile.ZipFile(jar) as packed:
        files = [name for name in packed.namelist() if re.fullmatch("META-INF/maven/.*/pom.properties", name)]
        artifacts = [properties(packed.read(name)) for name in files]
    own = [each for each in artifacts if f"{each.get('artifactId')}-{each.get('version')}" == jar.stem]
    return (own[0]["groupId"], own[0]["artifactId"], own[0]["version"]) if len(own) == 1 else None


def properties(content: bytes) -> dict[str, str]:
    """What a file of Java properties says, in the plain form that Maven writes."""
    lines = content.decode("latin-1").splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines if line[:1] != "#")}


def main() -> int:
    """Write the list, valid by CycloneDX's schema."""
    python, place, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    bom = narrowed(of_python(python))
    jars = [of_jar(jar) for jar in sorted(place.glob("*.jar"))]
    spark = next(each for each in bom["components"] if each["name"] == "pyspark")
    spark["components"] = [jar for jar in jars if not jar["bom-ref"].startswith(DELTA)]
    bom["components"] += [jar for jar in jars if jar["bom-ref"].startswith(DELTA)]
    text = json.dumps(bom, indent=2, sort_keys=True)
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        sys.stderr.write(f"not valid: {fault}\n")
        return 1
    out.write_text(text + "\n", encoding="utf-8")
    named = sum("purl" in jar for jar in jars)
    sys.stdout.write(
        f"{out}: {len(bom['components'])} components, {len(jars)} jars ({named} under their Maven names)\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
