"""Which files of some directories were opened, as the kernel saw it: what a pass really reads of history."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

IN_OPEN, IN_NONBLOCK = 0x20, 0x800
HEADER = struct.Struct("iIII")
BUFFER = 1 << 20


@contextmanager
def opened_files(places: Iterable[Path]) -> Iterator[set[Path]]:
    """Files right under `places` that anyone opens while the block runs; filled when it ends (Linux: inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    queue = libc.inotify_init1(IN_NONBLOCK)
    if queue < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    found: set[Path] = set()
    try:
        watched = {libc.inotify_add_watch(queue, os.fsencode(place), IN_OPEN): place for place in places}
        yield found
        for watch, name in _events(queue):
            found.add(watched[watch] / name)
    finally:
        os.close(queue)


def _events(queue: int) -> Iterator[tuple[int, str]]:
    while True:
        try:
            data = os.read(queue, BUFFER)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            watch, _, _, length = HEADER.unpack_from(data, place)
            name = data[place + HEADER.size : place + HEADER.size + length].rstrip(b"\0")
            place += HEADER.size + length
            yield watch, os.fsdecode(name)
