"""A real HDFS on loopback: a NameNode and a DataNode of Hadoop, as Maven Central has them, in a directory of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import maven
import pyspark
from real_broker import free_port

# The servers' classes; what they need beside them is in Spark's.
PACKAGE = "org.apache.hadoop:hadoop-client-minicluster:3.4.2"
LONGEST_START_S = 120.0
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class Hdfs:
    """One NameNode and one DataNode."""

    def __init__(self, directory: Path) -> None:
        self.port, self._web_port = free_port(), free_port()
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        (directory / "conf").mkdir()
        _write(directory / "conf" / "core-site.xml", {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self.port}",
            "hadoop.tmp.dir": str(directory),
        })  # fmt: skip
        ports = ("datanode.address", "datanode.http.address", "datanode.ipc.address")
        _write(directory / "conf" / "hdfs-site.xml", {
            "dfs.replication": "1",
            "dfs.namenode.http-address": f"127.0.0.1:{self._web_port}",
            **{f"dfs.{name}": f"127.0.0.1:{free_port()}" for name in ports},
        })  # fmt: skip

    @property
    def uri(self) -> str:
        """Where clients find it."""
        return f"hdfs://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Format it, start it, and wait until it has left safe mode."""
        with (self._directory / "hdfs.log").open("ab") as log:
            formatted = [*self._command(NAMENODE), "-format", "-nonInteractive"]
            subprocess.run(formatted, check=True, stdout=log, stderr=log, timeout=LONGEST_START_S)
            for server in (NAMENODE, DATANODE):
                self._processes.append(
                    subprocess.Popen(
                        self._command(server), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
                    )
                )
        end = time.monotonic() + LONGEST_START_S
        while not self._is_up():
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                raise RuntimeError((self._directory / "hdfs.log").read_text(errors="replace")[-2000:])
            time.sleep(0.2)

    def kill(self) -> None:
        """End it as a crash would."""
        while self._processes:
            process = self._processes.pop()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _is_up(self) -> bool:
        """Whether the NameNode has left safe mode and knows of the DataNode."""
        address = f"http://127.0.0.1:{self._web_port}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
        try:
            with urlopen(address, timeout=2) as answer:
                (state,) = json.load(answer)["beans"]
        except (OSError, ValueError):
            return False
        return not state["Safemode"] and bool(json.loads(state["LiveNodes"]))

    def _command(self, main: str) -> list[str]:
        java = shutil.which("java")
        assert java is not None
        classes = [self._directory / "conf", maven.jar(PACKAGE), Path(pyspark.__file__).parent / "jars" / "*"]
        return [java, "-Xmx400m", "-cp", ":".join(map(str, classes)), main]


@contextmanager
def hdfs(directory: Path) -> Iterator[Hdfs]:
    """A running one, empty."""
    servers = Hdfs(directory)
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


def _write(file: Path, settings: dict[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]), encoding="utf-8")
