"""A Spark standalone cluster on loopback: one master and two workers, ended by their ids."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from real_broker import free_port

LIMIT_S = 120.0
REGISTERED = "Successfully registered with master"


class SparkCluster:
    """A master and its workers, from the Spark at `spark_home`, all that they write below `scratch`.

    environ  what each node's environment has beside
    drivers  how many may work at once, each of which takes a core and a GiB of either worker
    """

    def __init__(self, spark_home: Path, scratch: Path, environ: Mapping[str, str], drivers: int) -> None:
        self._spark_class = spark_home / "bin" / "spark-class"
        self._scratch = scratch
        self._drivers = drivers
        self._port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # No Python of anybody's: what executors import they got with the job.
        self._environ = {
            "PATH": os.defpath,
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            **environ,
        }

    @property
    def master(self) -> str:
        """What `--master` is to name."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def workers(self) -> list[Path]:
        """Where the workers keep what executors are given and write."""
        return [self._scratch / f"worker-{number}" for number in (1, 2)]

    def start(self) -> None:
        """Start all and wait until both workers are registered."""
        self._spawn("master", "master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        self._wait_for("master", "I have been elected leader")
        for place in self.workers:
            place.mkdir(parents=True)
            self._spawn_worker(place)
        for place in self.workers:
            self._wait_for(place.name, REGISTERED)

    def lose_worker(self, number: int) -> None:
        """Let the machine of a worker, 0 or 1, go down, with the executors that it started, and come up again."""
        place = self.workers[number]
        _kill(self._processes[place.name])
        self._spawn_worker(place)
        self._wait_for(place.name, REGISTERED)

    def close(self) -> None:
        """End all, with the executors that the workers started."""
        for process in reversed(self._processes.values()):
            _kill(process)

    def _spawn_worker(self, place: Path) -> None:
        self._spawn(
            place.name,
            "worker.Worker",
            *("--host", "127.0.0.1", "--webui-port", "0"),
            *("--cores", str(self._drivers), "--memory", f"{self._drivers}g"),
            *("--work-dir", str(place), self.master),
        )

    def _spawn(self, name: str, daemon: str, *arguments: str) -> None:
        with (self._scratch / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._spark_class, f"org.apache.spark.deploy.{daemon}", *arguments],
                env=self._environ, cwd=self._scratch, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, name: str, words: str) -> None:
        log, end = self._scratch / f"{name}.log", time.monotonic() + LIMIT_S
        while words not in (logged := log.read_text(errors="replace")):
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes.values()):
                raise RuntimeError(f"{name} does not say '{words}': {logged[-2000:]}")
            time.sleep(0.2)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def spark_cluster(
    spark_home: Path, scratch: Path, environ: Mapping[str, str] = MappingProxyType({}), *, drivers: int = 1
) -> Iterator[SparkCluster]:
    """A running cluster."""
    cluster = SparkCluster(spark_home, scratch, environ, drivers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
