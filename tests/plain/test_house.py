"""The house itself: errors, resources, what the wheel carries, and the rules that tools enforce."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from txmq_lib import errors
from txmq_lib.config import resources
from txmq_lib.spark import jars, java

ROOT = Path(__file__).resolve().parents[2]


def run(*command, env=None, stdin=None):
    # What an outer make hands to an inner one would make the inner one tell where it is.
    outer = {name: value for name, value in (env or os.environ).items() if not name.startswith("MAKE")}
    return subprocess.run(command, env=outer, input=stdin, cwd=ROOT, capture_output=True, text=True, check=False)


def tool(name):
    return str(Path(sys.executable).with_name(name))


def every_error(above=errors.TxmqError):
    return {above}.union(*(every_error(below) for below in above.__subclasses__()))


def test_every_error_has_a_code_of_its_own_and_a_known_exit_status():
    codes = {error.__name__: error.code for error in every_error()}
    assert len(set(codes.values())) == len(codes), codes
    assert {error.exit_status for error in every_error()} <= {1, 2, 3, 4}
    assert errors.PassConflict.exit_status == 4
    assert errors.SettingsError.exit_status == errors.UsageError.exit_status == 2
    defined_here = {
        thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)
    }
    assert defined_here == {error for error in every_error() if error.__module__ == errors.__name__}


def test_what_the_wheel_carries_is_there_and_is_what_a_checkout_uses():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {ROOT / source for source in carried} == {
        resources.conf_dir(),
        resources.schemas_dir(),
        resources.jobs_dir(),
        resources.demo_store(),
        resources.demo_consumer_store(),
        resources.demo_polled_offsets(),
    }
    assert all((ROOT / source).exists() for source in carried)
    assert sorted(carried.values()) == [
        "txmq_lib/share/conf",
        "txmq_lib/share/demo/consumer-offsets.jsonl.gz",
        "txmq_lib/share/demo/consumer-store.tar.xz",
        "txmq_lib/share/demo/store.tar.xz",
        "txmq_lib/share/jobs",
        "txmq_lib/share/schemas",
    ]


def test_the_wheel_that_is_built_has_its_licence_and_all_that_a_run_reads_and_no_more(tmp_path):
    done = run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as packed:
        inside = packed.namelist()
        licence = next(name for name in inside if name.endswith(".dist-info/licenses/LICENSE"))
        assert packed.read(licence) == (ROOT / "LICENSE").read_bytes()
        metadata = packed.read(licence.replace("licenses/LICENSE", "METADATA")).decode()
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "txmq_lib/share/conf/base.yaml" in inside
    assert {name.partition("/")[0] for name in inside} == {"txmq_lib", licence.partition("/")[0]}
    entries = {name.rpartition("/")[2] for name in inside if name.startswith("txmq_lib/share/jobs/")}
    assert entries == {file.name for file in (ROOT / "jobs").glob("*.py")}


CANARY = """
import datetime
import time
import uuid

from pyspark.sql import functions as F

NOW = datetime.datetime.now(datetime.UTC)
SECONDS = time.time()
ID = uuid.uuid4()
COLUMNS = [F.current_timestamp(), F.now(), F.rand(), F.uuid(), F.monotonically_increasing_id()]
"""


@pytest.mark.parametrize(("path", "banned"), [("txmq_lib/rules/canary.py", 8), ("txmq_lib/cli/canary.py", 0)])
def test_no_clock_and_no_chance_below_the_command_line(path, banned):
    done = run(tool("ruff"), "check", "--select", "TID251", "--output-format", "concise", "--stdin-filename", path, "-",
               stdin=CANARY)  # fmt: skip
    assert done.stdout.count("TID251") == banned, done.stdout


def a_java(directory, version):
    """A `java` that says it is `version`, as old ones do: on stderr."""
    java_file = directory / "bin" / "java"
    java_file.parent.mkdir(parents=True)
    java_file.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-14' >&2\n", encoding="utf-8")
    java_file.chmod(0o755)
    return directory


@pytest.mark.parametrize(("version", "major"), [("11.0.6", 11), ("1.8.0_392", 8)])
def test_an_old_java_is_named_in_one_sentence(tmp_path, version, major):
    env = {"JAVA_HOME": str(a_java(tmp_path, version)), "PATH": ""}
    done = run(sys.executable, "-m", "txmq_lib.spark.java", env=env)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"Spark needs Java 17 or newer and {tmp_path}/bin/java is version {major}: "
        "install a Java runtime (JDK or JRE) of version 17 or newer, or point JAVA_HOME at one.\n"
    )


@pytest.mark.parametrize("env", [{"PATH": ""}, {"PATH": "", "JAVA_HOME": "/nowhere"}])
def test_a_missing_java_is_one_sentence(env):
    done = run(sys.executable, "-m", "txmq_lib.spark.java", env=env)
    assert done.returncode == 3
    assert done.stderr.startswith("Spark needs Java 17 or newer and ")
    assert done.stderr.count("\n") == 1


def test_the_java_of_this_machine_is_found_and_a_new_one_would_be(tmp_path, monkeypatch):
    assert java.require_java().is_file()
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, "25.0.1")))
    assert java.require_java() == tmp_path / "bin" / "java"
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n', encoding="utf-8")
    assert java.require_java() == tmp_path / "bin" / "java"


def test_the_jars_are_those_of_the_pinned_spark_and_delta():
    assert jars.coordinates() == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert jars.jar_names() == ("delta-spark_4.1_2.13-4.4.0.jar", "delta-storage-4.4.0.jar")


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


def make(tmp_path, target, *, python, env=None):
    return run("make", target, f"VENV={tmp_path}/venv", f"PYTHON={python}", env={**os.environ, **(env or {})})


@needs_make
@pytest.mark.parametrize("target", ["setup", "demo", "test-fast"])
def test_make_says_in_one_sentence_that_python_is_missing(tmp_path, target):
    done = make(tmp_path, target, python="no-such-python")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == (
        "txmq needs Python 3.11 or newer and finds no no-such-python: "
        f"install it, or say make {target} PYTHON=/path/to/python3.11"
    )
    assert "Traceback" not in done.stderr + done.stdout


@needs_make
def test_make_says_in_one_sentence_that_python_is_too_old(tmp_path):
    old = tmp_path / "python3"
    pretend = "import sys; sys.version_info = (3, 10, 14); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{pretend}' \"$2\"\n", encoding="utf-8")
    old.chmod(0o755)
    done = make(tmp_path, "setup", python=old)
    assert done.returncode != 0
    assert done.stderr.startswith(f"txmq needs Python 3.11 or newer and {old} is older: ")


@needs_make
def test_make_says_in_one_sentence_that_java_is_missing_before_it_fetches_anything(tmp_path):
    done = make(tmp_path, "setup", python=sys.executable, env={"JAVA_HOME": "/nowhere"})
    assert done.returncode != 0
    assert done.stderr.startswith("Spark needs Java 17 or newer and JAVA_HOME=/nowhere has no bin/java: ")
    assert not (tmp_path / "venv").exists()


@needs_make
def test_make_alone_lists_what_can_be_made():
    done = run("make").stdout
    assert [line.split()[1] for line in done.splitlines()] == [
        "help", "setup", "demo", "docs", "test", "test-fast", "test-long", "model", "faults", "mutants", "test-real", "fuzz", "hostile", "memory",
        "check", "lock", "ranges", "licences", "sbom", "vulnerabilities", "bench", "clean",
    ]  # fmt: skip


WRITERS = {
    "txmq_lib/cli/output/said.py",  # what commands say
    "txmq_lib/cli/run/metrics.py",  # what prometheus_client has escaped
    "txmq_lib/cli/output/tables.py",  # rich writes there; each cell was made visible
    "txmq_lib/spark/jars.py",  # programs of their own, of the set-up
    "txmq_lib/spark/java.py",
}


def test_only_one_module_says_anything():
    """Names come from outside: what is printed elsewhere would reach a terminal as it is."""
    says = re.compile(r"typer\.(echo|secho)|\bprint\(|std(out|err)\.write|print_exc|traceback\.print|click\.echo")
    found = {
        str(path.relative_to(ROOT))
        for folder in ("txmq_lib", "jobs")
        for path in (ROOT / folder).rglob("*.py")
        if says.search(path.read_text(encoding="utf-8"))
    }
    assert found <= WRITERS
