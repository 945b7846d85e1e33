"""What `txmq doctor` finds on this machine: packages, Java, jars, host name, memory, directories."""

from __future__ import annotations

import codecs
import locale
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from txmq_lib.errors import EnvironmentFault
from txmq_lib.files.object_stores import is_s3
from txmq_lib.spark import jars, java

OK, WARN, FAIL = "ok", "warn", "fail"

# A pass writes its tables anew before old files go: with less room it may not end, with little it may soon not.
DISK_FAIL_BYTES, DISK_WARN_BYTES = 200 << 20, 5 << 30
MEMORY_WARN_BYTES = 2 << 30
JAVA_SCRATCH = Path("/tmp")
# Spark's connector for S3, and by which settings it may get to a session.
CONNECTOR = "hadoop-aws"
CLASS_PATH, JARS, PACKAGES = "spark.driver.extraClassPath", "spark.jars", "spark.jars.packages"


@dataclass(frozen=True)
class Finding:
    """What one check found; `to_do` is empty where all is well."""

    check: str
    state: str
    found: str
    to_do: str = ""


def package_findings() -> Iterator[Finding]:
    """The packages are there, in versions that txmq allows."""
    try:
        needed = [line for line in requires("txmq") or () if ";" not in line]
    except PackageNotFoundError:
        yield Finding("packages", WARN, "txmq runs from a checkout that is not installed", "make setup")
        return
    wrong = []
    for requirement in needed:
        (name,) = re.findall(r"^[\w.-]+", requirement)
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "missing"
        if found == "missing" or not _allows(requirement, found):
            wrong.append(f"{name} {found}, needed {requirement.removeprefix(name)}")
    if wrong:
        state = FAIL if any(" missing," in text for text in wrong) else WARN
        yield Finding("packages", state, "; ".join(wrong), "install txmq again, in an environment of its own")
    else:
        yield Finding("packages", OK, f"{len(needed)} in versions that txmq allows")


def _allows(requirement: str, found: str) -> bool:
    """Whether a version is one of `name==1.2` or `name>=1.2,<2`, by its numbers."""
    have = _numbers(found)
    holds = {"==": lambda bound: have == bound, ">=": lambda bound: have >= bound, "<": lambda bound: have < bound}
    return all(holds[sign](_numbers(bound)) for sign, bound in re.findall(r"(==|>=|<)([\w.]+)", requirement))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[^\d.]", text)[0]))


def java_finding() -> Finding:
    """There is a Java that Spark can run on."""
    try:
        return Finding("java", OK, str(java.require_java()))
    except EnvironmentFault as fault:
        words, _, advice = fault.message.partition(": ")
        return Finding("java", FAIL, words, advice)


def jars_finding() -> Finding:
    """Delta's jars lie where Spark takes them from, and are the pinned ones."""
    fetch = f"{sys.executable} -m txmq_lib.spark.jars"
    try:
        jars.require_pinned()
        missing = jars.missing()
    except PackageNotFoundError as fault:
        return Finding("jars", FAIL, str(fault), "install txmq again")
    except EnvironmentFault as fault:
        problem, _, advice = fault.message.partition(": ")
        return Finding("jars", FAIL, problem, advice)
    if missing:
        problem = f"{' and '.join(missing)} missing in {jars.jars_dir()}"
        return Finding("jars", WARN, problem, f"{fetch}; else the next session fetches them")
    return Finding("jars", OK, f"{', '.join(jars.jar_names())} in {jars.jars_dir()}, with the pinned hashes")


def connector_finding(uri: str, spark: Mapping[str, str]) -> Iterator[Finding]:
    """Spark's connector for S3 is named, or lies beside Spark's own jars; it may be found otherwise as well.

    spark  Spark's settings as the user has them
    """
    if not is_s3(uri):
        return
    paths = [*spark.get(CLASS_PATH, "").split(":"), *spark.get(JARS, "").split(",")]
    gone = [path for path in paths if path.startswith("/") and not glob(path)]
    beside = [] if find_spec("pyspark") is None else jars.jars_dir().glob(f"{CONNECTOR}*.jar")
    named = (*(name for path in paths for name in glob(path) or [path]), *map(str, beside), spark.get(PACKAGES, ""))
    advice = "name it and the bundle by spark.driver.extraClassPath (documentation: Object stores)"
    if gone:
        yield Finding("jars", WARN, f"{', '.join(gone)}: no such file", advice)
    elif not any(CONNECTOR in each for each in named):
        yield Finding("jars", WARN, f"no {CONNECTOR} is named in these settings, or lies beside Spark's jars", advice)


def spark_home_finding() -> Iterator[Finding]:
    """No SPARK_HOME leads to another Spark than the package: its scripts would start that one."""
    home = os.environ.get("SPARK_HOME")
    if home and Path(home).resolve() != jars.spark_home().resolve():
        yield Finding("spark", WARN, f"SPARK_HOME={home} is another Spark than {jars.spark_home()}", "unset SPARK_HOME")


def host_finding() -> Finding:
    """This host's name leads to an address: Spark asks for it at every start."""
    name = socket.gethostname()
    if "SPARK_LOCAL_IP" in os.environ:
        return Finding("host", OK, f"SPARK_LOCAL_IP is set, {name} is not asked for")
    try:
        return Finding("host", OK, f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        return Finding("host", FAIL, f"{name} has no address", "add it to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1")


def locale_finding() -> Finding:
    """Java can say every file name: it takes the locale's characters for those of the file system."""
    encoding = locale.getencoding()
    if codecs.lookup(encoding).name == "utf-8":
        return Finding("locale", OK, encoding)
    sentence = f"{encoding}: Java cannot say names beyond it, of a warehouse as of a file"
    return Finding("locale", WARN, sentence, "set LC_ALL=C.UTF-8")


def scratch_findings() -> Iterator[Finding]:
    """Files can be written and libraries loaded where Python and Java keep what is for a while."""
    scratch = Path(tempfile.gettempdir())
    chosen = os.environ.get("TMPDIR")
    if chosen and scratch.resolve() != Path(chosen).resolve():
        yield Finding("scratch", FAIL, f"TMPDIR={chosen} cannot be used", "make it, or set TMPDIR to another directory")
    yield directory_finding("scratch", scratch, "set TMPDIR to a directory that can be written")
    if JAVA_SCRATCH.is_dir() and is_noexec(JAVA_SCRATCH):
        yield Finding(
            "scratch",
            FAIL,
            f"{JAVA_SCRATCH} is mounted noexec: Java cannot load what unpacks files from it",
            "--set spark.spark.driver.extraJavaOptions=-Djava.io.tmpdir=DIR, a directory that is not",
        )


def is_noexec(directory: Path) -> bool:
    """Whether nothing that lies there may be executed."""
    return bool(os.statvfs(directory).f_flag & os.ST_NOEXEC)


def memory_finding() -> Finding:
    """There is memory for a JVM and DuckDB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if total < MEMORY_WARN_BYTES:
        return Finding(
            "memory", WARN, size_text(total), "give spark.driver.memory less than that, or take a larger machine"
        )
    return Finding("memory", OK, size_text(total))


def directory_finding(check: str, directory: Path, advice: str) -> Finding:
    """A file can be written there, and there is room; as the file system does, not as permission bits say."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".txmq-doctor-"):
            pass
    except OSError as error:
        return Finding(check, FAIL, f"{directory} cannot be written: {error.strerror}", advice)
    free = shutil.disk_usage(directory).free
    sentence = f"{directory}: {size_text(free)} free"
    if free < DISK_WARN_BYTES:
        return Finding(check, FAIL if free < DISK_FAIL_BYTES else WARN, sentence, "make room: a pass needs it to end")
    return Finding(check, OK, sentence)


def size_text(count: int) -> str:
    """Bytes in GiB or MiB."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
