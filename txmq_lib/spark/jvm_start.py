"""Starts Spark's own JVM. What it is told may be a secret: it stands in a private file, never in an argument."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.secrets import scrubbed
from txmq_lib.errors import EnvironmentFault, SettingsError
from txmq_lib.files.scratch import scratch
from txmq_lib.spark.jars import jars_dir, spark_home

LOOPBACK = "127.0.0.1"
# Where else Java takes options from.
_JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_OPTION_KEYS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_PLAIN = re.compile(r"[A-Za-z0-9._/,-]+")
_A_MASTER = re.compile(r"^\s*spark\.master\b", re.MULTILINE)


def start_jvm(configuration: Mapping[str, str], *, without: Collection[str]) -> None:
    """Start the Spark that came with pyspark, with this Python in its workers, whatever else is on the machine.

    configuration  Spark's settings
    without        environment variables that the JVM and its workers do not need

    EnvironmentFault where it does not start; nothing is done where one runs already.
    """
    if SparkContext._gateway is not None:
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if jars_dir().is_dir():
        os.environ["SPARK_HOME"] = str(spark_home())
    reading, writing = os.pipe()
    Thread(target=_pass_on, args=(reading,), daemon=True).start()
    try:
        with TemporaryDirectory(dir=scratch()) as place:
            written = _written({**configuration, **_java_options(configuration)}, Path(place))
            rest = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
            arguments = f"--properties-file {shlex.quote(str(written))} --load-spark-defaults {rest}"
            with _environment({"PYSPARK_SUBMIT_ARGS": arguments, **_address(configuration)}, without):
                gateway = launch_gateway(popen_kwargs={"stderr": writing})
        SparkContext._ensure_initialized(gateway=gateway)
    except PySparkRuntimeError as error:
        raise EnvironmentFault(
            "Spark's JVM did not start: what it said stands above; less memory can be asked for"
            " by --set spark.spark.driver.memory=1g."
        ) from error
    finally:
        os.close(writing)


def is_local(master: str) -> bool:
    """Whether all of Spark runs in this one JVM."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def collector(options: str, environ: Mapping[str, str]) -> str:
    """The Java option that chooses the garbage collector; empty where `given` options or `environ` choose one.

    A pass waits for nobody: what counts is how soon it is done, and over many rows G1 takes longer. Java does not start
    with two.
    """
    said = " ".join((options, *[environ.get(name, "") for name in _JAVA_OPTIONS]))
    return "" if re.search(r"-XX:\+Use\w+GC\b", said) else "-XX:+UseParallelGC"


def _java_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """Java's options with ours among them."""
    defaults, stated = (configuration.get(key, "") for key in _OPTION_KEYS)
    quiet = f"-Dlog4j2.configurationFile={(conf_dir() / 'log4j2.properties').as_uri()}"
    own = shlex.quote(f"-Djava.io.tmpdir={scratch()}")  # Spark spills there too, where it is not told otherwise
    words = " ".join(filter(None, (quiet, own, collector(f"{defaults} {stated}", os.environ), stated)))
    return {_OPTION_KEYS[0]: defaults, _OPTION_KEYS[1]: words} if defaults else {_OPTION_KEYS[1]: words}


def _written(configuration: Mapping[str, str], place: Path) -> Path:
    """The settings as a file of properties; Java's own properties, which may be passwords, in files beside it."""
    settings = dict(configuration)
    for key in _OPTION_KEYS:
        if key in settings:
            settings[key] = _without_properties(key, settings[key], place / key)
    file = place / "spark.properties"
    _write(file, "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items()))
    return file


def _without_properties(key: str, options: str, file: Path) -> str:
    """Java's options with each -D of them in `file`, which Java reads as an argument file (`@file`)."""
    try:
        words = shlex.split(options)
    except ValueError:
        raise SettingsError([f"spark.{key}: has a quotation mark without the other one"]) from None
    properties = [word for word in words if word.startswith("-D")]
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for word in properties)
    _write(file, "".join(quoted))
    return shlex.join([f"@{file}", *[word for word in words if word not in properties]])


def _write(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as private:
        private.write(text)


def _escaped(value: str) -> str:
    """A value as java.util.Properties reads it."""
    if _PLAIN.fullmatch(value):
        return value
    units = value.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _address(configuration: Mapping[str, str]) -> dict[str, str]:
    """Where Spark's pages listen, if they are asked for: only an environment variable can say it."""
    named = configuration.get("spark.master")
    if named is None and (_is_master_said_elsewhere() or "SPARK_LOCAL_IP" in os.environ):
        return {}
    return {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", LOOPBACK)} if is_local(named or "local") else {}


def _is_master_said_elsewhere() -> bool:
    if "MASTER" in os.environ or "master" in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        return True
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf", "spark-defaults.conf")
    return defaults.is_file() and _A_MASTER.search(defaults.read_text("utf-8", errors="replace")) is not None


@contextmanager
def _environment(also: Mapping[str, str], without: Collection[str]) -> Iterator[None]:
    """The environment of what is started meanwhile: pyspark hands on this process's own."""
    before = {name: os.environ.get(name) for name in (*also, *without)}
    try:
        for name in without:
            os.environ.pop(name, None)
        os.environ.update(also)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _pass_on(reading: int) -> None:
    """The JVM's stderr without secrets and one line that Spark's own module options cause and no option silences."""
    with open(reading, "rb") as output:
        for line in output:
            if not line.startswith(b"WARNING: Using incubator modules"):
                # Spark repeats URLs of repositories; bytes that are no UTF-8 stay as they are.
                freed = scrubbed(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, freed)
