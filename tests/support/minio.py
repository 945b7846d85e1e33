"""A real S3 server: MinIO, built by the Go toolchain once, on loopback, in a directory of its own."""

from __future__ import annotations

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
import pytest
from pyarrow.fs import S3FileSystem
from real_broker import free_port
from s3_proxy import S3Proxy, s3_proxy

VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
BUILT = Path(__file__).parents[2] / "build" / f"minio-{VERSION}"
LONGEST_BUILD_S, LONGEST_START_S = 1_800, 60.0
ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "txmq-tests", "s3cr.t-of-tests", "us-east-1", "lake"
# For Spark: S3's file system, and the SDK that it was built against.
PACKAGES = ("org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:bundle:2.29.52")


def binary() -> Path:
    """The server's program, built where it is missing: minutes the first time, since Go keeps what it compiled."""
    program = BUILT / "minio"
    if not program.is_file():
        go = shutil.which("go") or "/usr/local/go/bin/go"
        environ = {**os.environ, "GOBIN": str(BUILT), "GOFLAGS": "-mod=mod"}
        built = subprocess.run(
            [go, "install", f"github.com/minio/minio@{VERSION}"], env=environ, capture_output=True, text=True,
            timeout=LONGEST_BUILD_S, check=False,
        )  # fmt: skip
        assert built.returncode == 0, built.stderr[-2000:]
    return program


def jars() -> list[Path]:
    """What Spark needs to speak S3."""
    return [maven.jar(package) for package in PACKAGES]


def environ(url: str, *, secret: str = SECRET_KEY) -> dict[str, str]:
    """The environment of whoever is to find the server at this URL."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }


def file_system(port: int) -> S3FileSystem:
    """The server, or what stands before it, at a port as pyarrow reaches it."""
    return S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, scheme="http",
                        endpoint_override=f"127.0.0.1:{port}", region=REGION)  # fmt: skip


class Minio:
    """One server: started, killed and started again at the same port, over the same directory."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._data = directory / "data"
        (self._data / BUCKET).mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        secrets = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
        fixed = {"HOME": str(self._directory), "PATH": os.defpath, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
        with (self._directory / "minio.log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary(), "server", "--quiet", "--address", f"127.0.0.1:{self.port}", str(self._data)],
                env={**fixed, **secrets}, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + LONGEST_START_S
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError((self._directory / "minio.log").read_text(errors="replace")[-2000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/minio/health/live", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def minio(directory: Path) -> Iterator[Minio]:
    """A running server with an empty bucket."""
    server = Minio(directory)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def behind_proxy(directory: Path) -> Iterator[S3Proxy]:
    """A running server's proxy; whoever reads the environment meanwhile finds the server behind it."""
    with minio(directory) as server, s3_proxy(server.port) as proxy, pytest.MonkeyPatch.context() as patch:
        for name, value in environ(proxy.url).items():
            patch.setenv(name, value)
        yield proxy
