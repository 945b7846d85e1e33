"""A file beside the tables that stands while a run goes on: by what a killed one leaves the next run knows of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from txmq_lib.files.plain_file import open_lock, read_plain, require_plain

# Readers of a lake pass over names that begin like this.
FOLDER = "_runs"
MOST_BYTES = 1 << 16


class RunMarker:
    """The file of one run, locked as long as this process lives; OSError where it cannot be made."""

    def __init__(self, warehouse: Path, run_id: str, facts: Mapping[str, Any]) -> None:
        folder = warehouse / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{run_id}.json"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.keep(facts)
        except OSError:
            self.remove()  # where nothing can be locked, whose it is nobody would know
            raise

    def keep(self, facts: Mapping[str, Any]) -> None:
        """Write down what is known of the run now, in the place of what was."""
        data = json.dumps(facts).encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def remove(self) -> None:
        """The run is over and recorded."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1


@contextmanager
def left_behind(warehouse: Path) -> Iterator[list[dict[str, Any]]]:
    """What each run whose process is gone left: for this block alone, and removed where that ends well.

    What nobody can read is passed over.
    """
    folder = warehouse / FOLDER
    found: list[Path] = []
    facts: list[dict[str, Any]] = []
    with ExitStack() as held:
        with suppress(OSError):
            for name in sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".json")):
                with suppress(OSError, ValueError):
                    require_plain(folder / name)
                    # NFS locks only what is open for writing.
                    descriptor = open_lock(folder / name)
                    held.callback(os.close, descriptor)
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever runs holds it
                    facts.append(dict(json.loads(read_plain(folder / name, MOST_BYTES))))
                    found.append(folder / name)
        yield facts
        for path in found:
            path.unlink(missing_ok=True)
