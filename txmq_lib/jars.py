"""Delta's jars, fetched once into the jars of this environment's Spark, so that no session start resolves them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from txmq_lib.errors import EnvironmentFault
from txmq_lib.java import require_java

_LONGEST_FETCH_SECONDS = 900

# All else that Delta's pom names comes with Spark, or serves Unity Catalog only.
EXCLUDED = ("org.*:*", "com.*:*", "io.unitycatalog:*", "io.delta:delta-kernel-*")


def spark_home() -> Path:
    """The directory of the installed pyspark package, which holds a whole Spark when it came from a wheel."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFault("the Python package pyspark is missing: install txmq again.")
    return Path(spec.origin).parent


def jars_dir() -> Path:
    """Where this environment's Spark takes its jars from."""
    return spark_home() / "jars"


def coordinates() -> str:
    """Delta's Maven coordinates for the installed pyspark and delta-spark."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"


def jar_names() -> tuple[str, ...]:
    """The files Delta needs at run time beside Spark's own."""
    _, artifact, delta = coordinates().split(":")
    return (f"{artifact}-{delta}.jar", f"delta-storage-{delta}.jar")


def installed() -> bool:
    """Whether a session can start without resolving anything."""
    return all((jars_dir() / name).is_file() for name in jar_names())


def install() -> bool:
    """Fetch what is missing; False where nothing was. EnvironmentFault in one sentence where it cannot be done."""
    if installed():
        return False
    require_java()
    with tempfile.TemporaryDirectory(prefix="txmq-ivy-") as scratch:
        fetched = _resolve(Path(scratch))
        try:
            _put(fetched)
        except OSError as error:
            raise EnvironmentFault(f"Delta's jars cannot be put into {jars_dir()}: {error.strerror}.") from error
    return True


def _put(fetched: Sequence[Path]) -> None:
    for older in (*jars_dir().glob("delta-spark_*.jar"), *jars_dir().glob("delta-storage-*.jar")):
        older.unlink()
    for name, jar in zip(jar_names(), fetched, strict=True):
        half_way = jars_dir() / f"{name}.part"
        shutil.copyfile(jar, half_way)
        half_way.replace(jars_dir() / name)


def _resolve(scratch: Path) -> list[Path]:
    """Delta's jars as Spark's own resolver (Ivy, with the user's spark-defaults.conf) leaves them under `scratch`."""
    nothing = scratch / "nothing.py"
    nothing.touch()
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", "local[1]", "--packages", coordinates(), "--exclude-packages", ",".join(EXCLUDED)),
        *("--conf", f"spark.jars.ivy={scratch}", "--conf", "spark.ui.enabled=false", str(nothing)),
    ]
    environment = {**os.environ, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    try:
        told = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_LONGEST_FETCH_SECONDS, check=False
        ).stderr
    except subprocess.TimeoutExpired:
        told = f"no answer in {_LONGEST_FETCH_SECONDS} s"
    fetched = [scratch / "jars" / f"io.delta_{name}" for name in jar_names()]
    if not all(jar.is_file() for jar in fetched):
        raise EnvironmentFault(
            f"Delta's jars ({coordinates()}) could not be fetched from Maven Central ({_reason(told)}): check the"
            " network or name a mirror by spark.jars.ivySettings in spark-defaults.conf, then try again."
        )
    return fetched


def _reason(told: str) -> str:
    """The most telling line of what Spark's resolver wrote."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    for sign in ("Host ", "timed out", "Server access error", "download failed", "unresolved", "Exception"):
        for line in lines:
            if sign in line:
                return line
    return lines[-1] if lines else "no reason given"


def main() -> int:
    """`python -m txmq_lib.jars`: fetch what is missing; one sentence on stderr where that fails."""
    try:
        fetched = install()
    except EnvironmentFault as fault:
        sys.stderr.write(f"{fault.message}\n")
        return fault.exit_status
    sys.stdout.write(f"{', '.join(jar_names())}: {'fetched' if fetched else 'already there'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
