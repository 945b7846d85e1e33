"""What txmq is made of beside its own code: declared where it is imported, locked with hashes, its licences known."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from txmq_lib.spark import jars

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN, DEV = "run.txt", "dev.txt"
# Which lock has which declared group; that of the tests has the packages of a run too.
LOCKS = {
    "dependencies": {RUN, DEV},
    "postgresql": {RUN, DEV},
    "dev": {DEV},
    "docs": {DEV},
    "build": {"build.txt"},
    "bench": {"bench.txt"},
    "supply": {"tools.txt"},
}
# Which groups the code of a place may import: the longest prefix counts.
MAY = {
    "txmq_lib": {"dependencies"},
    "jobs": {"dependencies"},
    "docs": {"dependencies", "docs"},
    "supply": {"dependencies", "supply"},
    "tests": {"dependencies", "postgresql", "dev", "docs"},
    "tests/bench": {"dependencies", "dev", "bench"},
}
# Airflow has an environment of its own.
ELSEWHERE = {"jobs/txmq_dag.py": {"airflow"}}
# Not in the environment of the tests, so that it cannot be asked what they are called in imports.
CALLED = {"cyclonedx": ["cyclonedx-python-lib"]}
# Needed though nobody imports them.
SILENT = {"dependencies": {"delta-spark"}}
# An oldest version, and the first that is too new; or one version alone.
RANGE = re.compile(r"(?P<name>[\w-]+)(?:\[\w+\])?[>=]=(?P<lowest>[\d.]+)(?:,<(?P<end>[\d.]+))?$")
LOCKED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[\w.!+-]+)(?: ; [^\\]+)?(?: \\)?$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def plain(name: str) -> str:
    """A distribution's name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> dict[str, list[str]]:
    """The requirements of each group, as written."""
    project = PYPROJECT["project"]
    groups = {
        "dependencies": project["dependencies"],
        **project["optional-dependencies"],
        **PYPROJECT["dependency-groups"],
    }
    return {group: [line for line in lines if isinstance(line, str)] for group, lines in groups.items()}


def names(group: str) -> set[str]:
    return {plain(re.split(r"[=<>\[]", requirement)[0]) for requirement in declared()[group]}


def locked(file: str) -> dict[str, set[str]]:
    """Versions of each package of a lock; a name has several where they depend on Python's version."""
    versions: dict[str, set[str]] = {}
    for line in (ROOT / "supply" / file).read_text(encoding="utf-8").splitlines():
        if found := LOCKED.match(line):
            versions.setdefault(found["name"], set()).add(found["version"])
    return versions


def numbers(version: str) -> tuple[int, ...]:
    """A version as it is compared: what comes behind its numbers, such as post1, set aside."""
    return tuple(int(number) for number in re.match(r"\d+(\.\d+)*", version)[0].split("."))


def test_what_a_run_needs_is_a_range_that_holds_what_is_locked():
    for group in ("dependencies", "postgresql"):
        for requirement in declared()[group]:
            name, lowest, end = RANGE.match(requirement).group("name", "lowest", "end")
            for lock in LOCKS[group]:
                (version,) = locked(lock)[plain(name)]
                is_within = numbers(lowest) <= numbers(version) < numbers(end) if end else version == lowest
                assert is_within, f"{requirement} in {lock}: make lock"


def test_the_page_tells_the_ranges_and_what_we_have():
    page = (ROOT / "docs" / "pages" / "install.md").read_text(encoding="utf-8")
    for requirement in (*declared()["dependencies"], *declared()["postgresql"]):
        name, lowest, end = RANGE.match(requirement).group("name", "lowest", "end")
        (ours,) = locked(RUN)[plain(name)]
        assert f"| {name} | {lowest} | {end or 'alone'} | {ours} |" in page.splitlines()


def test_what_the_tests_and_tools_need_is_pinned_and_their_lock_has_that_version():
    assert set(declared()) == set(LOCKS)
    for group in LOCKS.keys() - {"dependencies", "postgresql"}:
        for requirement in declared()[group]:
            name, sign, version = requirement.partition("==")
            assert sign, requirement
            for lock in LOCKS[group]:
                assert locked(lock).get(plain(name)) == {version}, f"{requirement} in {lock}: make lock"


def test_what_builds_the_package_is_locked():
    for requirement in PYPROJECT["build-system"]["requires"]:
        name, _, version = requirement.partition("==")
        assert locked("build.txt")[plain(name)] == {version}


@pytest.mark.parametrize("lock", sorted({lock for locks in LOCKS.values() for lock in locks}))
def test_a_lock_has_nothing_but_versions_and_hashes(lock):
    lines = (ROOT / "supply" / lock).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not LOCKED.match(line) and not HASH.match(line)] == []
    assert all(HASH.match(after) for line, after in zip(lines, [*lines[1:], ""], strict=True) if LOCKED.match(line))


def test_a_run_and_the_tests_agree_on_versions():
    assert {name: version for name, version in locked(DEV).items() if name in locked(RUN)} == locked(RUN)


def imports(path: Path) -> Iterator[str]:
    """The top-level names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def test_every_import_is_declared_where_it_may_be_and_nothing_is_declared_for_nobody():
    files = [path for place in ("txmq_lib", "jobs", "docs", "supply", "tests") for path in (ROOT / place).rglob("*.py")]
    own = {path.stem for path in files} | {path.parent.name for path in files}
    packages_of = {**packages_distributions(), **CALLED}
    undeclared, used = set(), set()
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        may = MAY[max((place for place in MAY if where.startswith(f"{place}/")), key=len)]
        allowed = set().union(*map(names, may))
        for name in set(imports(path)) - sys.stdlib_module_names - ELSEWHERE.get(where, set()):
            packages = {plain(package) for package in packages_of.get(name, [name])}
            used |= packages if where.startswith(("txmq_lib", "jobs")) else set()
            if not packages & allowed and name not in own:
                undeclared.add(f"{where}: {name}")
    assert sorted(undeclared) == []
    assert names("dependencies") - used == SILENT["dependencies"] - used


def test_the_licence_of_every_locked_package_is_known():
    listed = {}
    for line in (ROOT / "supply" / "licences.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1][:1].isdigit():
            listed[plain(cells[0])] = cells[1], cells[2]
    everything: dict[str, set[str]] = {}
    for lock in {lock for locks in LOCKS.values() for lock in locks}:
        for name, versions in locked(lock).items():
            everything.setdefault(name, set()).update(versions)
    assert {name: listed[name][0] for name in listed if listed[name][0] not in everything.get(name, ())} == {}
    assert set(everything) - set(listed) <= {"colorama"}, "make licences"  # Windows' own
    assert [name for name, (_, licence) in listed.items() if not licence or "unknown" in licence.lower()] == []


def test_the_packages_are_what_the_hashes_of_the_jars_are_for():
    versions = locked(RUN)
    spark = ".".join(next(iter(versions["pyspark"])).split(".")[:2])
    delta = next(iter(versions["delta-spark"]))
    assert set(jars.SHA256) == {f"delta-spark_{spark}_2.13-{delta}.jar", f"delta-storage-{delta}.jar"}
