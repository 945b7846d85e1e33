"""Driver processes that work in warehouses on S3, one after the other as they are told; MinIO behind a proxy, built by Go."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

import minio
from contents import contents
from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files
from s3_proxy import S3Proxy, s3_proxy
from scenario import ANSWER

LONGEST_S = 900.0


class Driver:
    """A driver process that does one step at a time, wherever it is told to."""

    def __init__(self, place: Path, inputs: Path, environ: dict[str, str], *more: str) -> None:
        classes = ":".join(map(str, minio.jars()))
        none = f"s3a://{minio.BUCKET}/none"
        command = [Path(__file__).with_name("driver.py"), none, inputs, "--classes", classes, *more]
        with (place / "drivers.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ}, start_new_session=True,
            )  # fmt: skip
        self._is_ready = False
        self._heard = b""

    def be_ready(self) -> None:
        """Wait until it has started."""
        if not self._is_ready:
            self.answer()
            self._is_ready = True

    def begin(self, step: int, place: str) -> None:
        """Let it do a step in the warehouse at a place."""
        self.be_ready()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step} {place}\n".encode())
        self._process.stdin.flush()

    def answer(self, within_s: float = LONGEST_S) -> str | None:
        """What it says of the step; None where it has not by then."""
        assert self._process.stdout is not None
        end = time.monotonic() + within_s
        while True:
            *lines, self._heard = self._heard.split(b"\n")
            for number, line in enumerate(lines):
                if line.startswith(ANSWER.encode()):
                    self._heard = b"\n".join([*lines[number + 1 :], self._heard])
                    return line.decode().removeprefix(ANSWER)
            if not select([self._process.stdout], [], [], max(end - time.monotonic(), 0.0))[0]:
                return None
            if not (read := os.read(self._process.stdout.fileno(), 65_536)):
                return "gone"
            self._heard += read

    def kill(self) -> None:
        """End it and its JVM as a crash would."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class FarPlaces:
    """Warehouses in one bucket, copied within it and fetched from it beside the proxy."""

    def __init__(self, place: Path, port: int) -> None:
        self._place = place
        self._data = place / "data" / minio.BUCKET
        self._store = S3FileSystem(access_key=minio.ACCESS_KEY, secret_key=minio.SECRET_KEY, scheme="http",
                                   endpoint_override=f"127.0.0.1:{port}", region=minio.REGION)  # fmt: skip

    def put(self, local: Path, name: str) -> None:
        """Put a warehouse of this disk there."""
        copy_files(str(local), f"{minio.BUCKET}/{name}", LocalFileSystem(), self._store)

    def copied(self, name: str, copy: str) -> str:
        """Copy a warehouse; the URI of the copy. Objects do not know their names: a copy of their directories will do."""
        shutil.copytree(self._data / name, self._data / copy)
        return f"s3a://{minio.BUCKET}/{copy}"

    def removed(self, name: str) -> None:
        """Remove a warehouse."""
        shutil.rmtree(self._data / name)

    def fetched(self, name: str) -> tuple[Path, dict[str, Counter[str]]]:
        """A warehouse on this disk, and every row of it: all files that its commits name are there."""
        here = self._place / "fetched"
        shutil.rmtree(here, ignore_errors=True)
        copy_files(f"{minio.BUCKET}/{name}", str(here), self._store, LocalFileSystem())
        return here, contents(here)


@contextmanager
def far_places(place: Path) -> Iterator[tuple[FarPlaces, S3Proxy]]:
    """An empty bucket, and the proxy that drivers are to find it behind."""
    place.mkdir()
    with minio.minio(place) as server, s3_proxy(server.port) as proxy:
        yield FarPlaces(place, server.port), proxy
