"""Delta's jars as Spark's resolver really brings them: it believes any earlier stop on its way, we do not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from txmq_lib.spark import jars

pytestmark = pytest.mark.jobs

POM = "<project><modelVersion>4.0.0</modelVersion><groupId>io.delta</groupId><artifactId>{}</artifactId><version>{}</version>{}</project>"
NEEDS = "<dependencies><dependency><groupId>io.delta</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies>"
FETCH = "import sys; from pathlib import Path; from txmq_lib.spark import jars; jars.jars_dir = lambda: Path(sys.argv[1]); sys.exit(jars.main())"


def test_a_jar_planted_in_the_local_maven_repository_is_found_out(tmp_path):
    _, artifact, version = jars.coordinates().split(":")
    needs = {artifact: NEEDS.format("delta-storage", version), "delta-storage": ""}
    for name, dependencies in needs.items():
        planted = tmp_path / "home" / ".m2" / "repository" / "io" / "delta" / name / version
        planted.mkdir(parents=True)
        (planted / f"{name}-{version}.pom").write_text(POM.format(name, version, dependencies), encoding="utf-8")
        with zipfile.ZipFile(planted / f"{name}-{version}.jar", "w") as jar:
            jar.writestr("io/delta/sql/DeltaSparkSessionExtension.class", b"planted")
    place = tmp_path / "jars"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FETCH, str(place)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path / 'home'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert list(place.iterdir()) == []
    assert (done.returncode, done.stdout) == (3, "")
    assert f"io.delta_{jars.jar_names()[0]} is not the jar that txmq knows" in done.stderr
    assert done.stderr.count("\n") == 1
