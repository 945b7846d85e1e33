"""A real PostgreSQL of Debian's package on loopback, in a directory of its own, never as root."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

USER, PASSWORD = "txmq", "s3cr.t-of-tests"


def binaries() -> Path:
    """Where the newest PostgreSQL of this machine has its programs; RuntimeError where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise RuntimeError("no PostgreSQL on this machine: make test-real installs it")
    return found[-1].parent


@dataclass
class PostgreSQL:
    """One cluster: started, stopped and started again at the same port."""

    directory: Path
    port: int

    @classmethod
    def created(cls) -> PostgreSQL:
        """A new cluster, not started; its one user logs in by password."""
        directory = Path(tempfile.mkdtemp(prefix="txmq-postgresql-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server = cls(directory, free.getsockname()[1])
        secret = directory / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (directory, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        server._run("initdb", "--pgdata", str(server.data), "--username", USER, "--auth", "scram-sha-256",
                    "--pwfile", str(secret), "--no-sync", "--encoding", "UTF8", "--locale", "C")  # fmt: skip
        return server

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    @property
    def url(self) -> str:
        """Its URL for SQLAlchemy."""
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -k {self.directory} -c fsync=off -c autovacuum=off"
        self._run("pg_ctl", "--pgdata", str(self.data), "--wait", "--log", str(self.directory / "log"), "--options",
                  options, "start")  # fmt: skip

    def stop(self) -> None:
        """Stop it as a crash would."""
        self._run("pg_ctl", "--pgdata", str(self.data), "--wait", "--mode", "immediate", "stop")

    def remove(self) -> None:
        """Stop it where it runs, and delete all it had."""
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.directory)

    def query(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements; the rows of the last one."""
        options = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD, "dbname": "postgres"}
        with psycopg.connect(**options, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        # initdb and postgres refuse to run as root.
        identity = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [str(binaries() / program), *arguments], cwd=self.directory, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False, timeout=120, **identity,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
