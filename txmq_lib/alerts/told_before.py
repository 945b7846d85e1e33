"""What was told and has not cleared, in one small file. One process at a time; the file is always whole."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from txmq_lib.alerts.changes import Alert
from txmq_lib.errors import AlertUnsentError, InputError
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.files.plain_file import open_lock, read_plain

MOST_BYTES = 16 << 20
# More than one run may tell for (webhook.py), with the reading of the tables before it.
LONGEST_WAIT_SECONDS = 120.0
LOOKED_EVERY_SECONDS = 0.1


class AlertState:
    """The alerts that were told, by condition."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else reads or writes the state meanwhile: two at once would tell everything twice.

        AlertUnsentError where another process does for longer than telling may take.
        """
        try:
            place = self._path.with_name(f".{self._path.name}.lock")
            lock = open_lock(place)
            try:
                _take(lock, place)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise InputError(f"alerts.state_file: {self._path} cannot be kept: {error.strerror}") from error

    def told(self) -> dict[str, Alert]:
        """What the file says; nothing where there is none, InputError where it is no such file."""
        try:
            rows = json.loads(read_plain(self._path, MOST_BYTES))
            return {row["condition"]: Alert(**row) for row in rows}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{self._path} holds no alerts ({type(error).__name__}): remove it") from error

    def keep(self, sent: Mapping[str, Alert]) -> None:
        """Put `told` in the place of what the file says."""
        write_whole(self._path, json.dumps([asdict(alert) for alert in sent.values()], indent=1))


def _take(lock: int, place: Path) -> None:
    ends = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= ends:
                words = f"another process has told alerts for {LONGEST_WAIT_SECONDS:g} s; it holds {place}"
                raise AlertUnsentError(words) from None
            time.sleep(LOOKED_EVERY_SECONDS)
