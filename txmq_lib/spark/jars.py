"""Delta's jars, fetched once into the jars of this environment's Spark; held against pinned hashes before every use."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from txmq_lib.errors import EnvironmentFault
from txmq_lib.spark.java import require_java

_LONGEST_FETCH_SECONDS = 900
_FETCH = "python -m txmq_lib.spark.jars"

# Of the jars as Maven Central has them. Another version of Delta comes with its own here.
SHA256 = {
    "delta-spark_4.1_2.13-4.4.0.jar": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}

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
    """The files Delta needs at run time beside Spark's own; EnvironmentFault where no hash of them is known."""
    _, artifact, delta = coordinates().split(":")
    names = (f"{artifact}-{delta}.jar", f"delta-storage-{delta}.jar")
    if not SHA256.keys() >= set(names):
        raise EnvironmentFault(
            f"txmq knows no hash of {coordinates()}: install txmq again, with the versions it names."
        )
    return names


def missing() -> list[str]:
    """Those of them that are not in place: the next session fetches them."""
    return [name for name in jar_names() if not (jars_dir() / name).is_file()]


def require_pinned() -> None:
    """EnvironmentFault where a jar that is in place is not the pinned one."""
    for name in jar_names():
        if name not in missing():
            _pinned(name, jars_dir() / name)


def require_jars() -> None:
    """All are in place, and the pinned ones. What is missing is fetched; what was changed is not mended silently."""
    require_pinned()
    if missing():
        install()


def install() -> bool:
    """Fetch the jars where one is missing or changed; False where none was. EnvironmentFault where that fails."""
    if not missing() and _all_pinned():
        return False
    require_java()
    with tempfile.TemporaryDirectory(prefix="txmq-ivy-") as scratch:
        fetched = dict(zip(jar_names(), _resolve(Path(scratch)), strict=True))
        contents = {name: _pinned(name, jar) for name, jar in fetched.items()}
    try:
        _put(contents)
    except OSError as error:
        raise EnvironmentFault(
            f"Delta's jars cannot be put into {jars_dir()} ({error.strerror}): run {_FETCH} once as somebody who may."
        ) from error
    return True


def _all_pinned() -> bool:
    try:
        require_pinned()
    except EnvironmentFault:
        return False
    return True


def _pinned(name: str, jar: Path) -> bytes:
    """The content of `jar`, which is that of the pinned `name`; EnvironmentFault where it is another."""
    try:
        content = jar.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{jar} cannot be read: {error.strerror}.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise EnvironmentFault(
            f"{jar} is not the jar that txmq knows (sha256 {found}, known {SHA256[name]}): find out who changed it or"
            f" which mirror gave it; {_FETCH} fetches it anew."
        )
    return content


def _put(contents: Mapping[str, bytes]) -> None:
    """Write all beside their place before any older one goes."""
    with tempfile.TemporaryDirectory(dir=jars_dir(), prefix=".txmq-") as half_way:
        for name, content in contents.items():
            (Path(half_way) / name).write_bytes(content)
            (Path(half_way) / name).chmod(0o644)
        for older in (*jars_dir().glob("delta-spark_*.jar"), *jars_dir().glob("delta-storage-*.jar")):
            older.unlink()
        for name in contents:
            (Path(half_way) / name).replace(jars_dir() / name)


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
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_LONGEST_FETCH_SECONDS, check=False
        ).stderr
    except subprocess.TimeoutExpired:
        done = f"no answer in {_LONGEST_FETCH_SECONDS} s"
    fetched = [scratch / "jars" / f"io.delta_{name}" for name in jar_names()]
    if not all(jar.is_file() for jar in fetched):
        raise EnvironmentFault(
            f"Delta's jars ({coordinates()}) could not be fetched from Maven Central ({_reason(done)}): check the"
            " network or name a mirror by spark.jars.ivySettings in spark-defaults.conf, then try again."
        )
    return fetched


def _reason(output: str) -> str:
    """The most telling line of what Spark's resolver wrote."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for sign in ("Host ", "timed out", "Server access error", "download failed", "unresolved", "Exception"):
        for line in lines:
            if sign in line:
                return line
    return lines[-1] if lines else "no reason given"


def main() -> int:
    """`python -m txmq_lib.spark.jars`: fetch what is missing; one sentence on stderr where that fails."""
    try:
        fetched = install()
    except EnvironmentFault as fault:
        sys.stderr.write(f"{fault.message}\n")
        return fault.exit_status
    sys.stdout.write(f"{', '.join(jar_names())}: {'fetched' if fetched else 'already there'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
