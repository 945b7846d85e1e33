"""A command with all processes it starts, as others on the machine see them: arguments, environment, open ports."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
PROGRAM = "import sys; from txmq_lib.cli import main; sys.exit(main())"
_LISTENS = "0A"


@dataclass
class Seen:
    """What was seen of a process and of all that it started.

    listening  (IP address, port) of sockets that wait for connections
    arguments  command lines
    children   environments of what it started
    """

    listening: set[tuple[str, int]] = field(default_factory=set)
    arguments: set[bytes] = field(default_factory=set)
    children: set[bytes] = field(default_factory=set)

    def look(self, pid: int) -> None:
        """Add what is there now."""
        ports = _listening_sockets()
        own = _read(pid, "cmdline")
        for process in tree(pid):
            arguments = _read(process, "cmdline")
            self.arguments.add(arguments)
            # Before it becomes what it is to be, a child is its parent's copy.
            if process != pid and arguments != own:
                self.children.add(_read(process, "environ"))
            self.listening |= {ports[inode] for inode in _inodes(process) & ports.keys()}

    def elsewhere(self) -> set[tuple[str, int]]:
        """What listens to more than this machine."""
        return {place for place in self.listening if not _is_loopback(place[0])}


@dataclass
class Ended:
    """How a command ended, and what was seen of it meanwhile."""

    status: int
    out: str
    err: str
    seen: Seen


def watched(
    arguments: Sequence[str],
    place: Path,
    environ: Mapping[str, str],
    *,
    program: str = PROGRAM,
    is_to_end: Callable[[], bool] = lambda: False,
    seconds: float = 300,
) -> Ended:
    """Run `txmq`, or another Python `program`, with `arguments` in `place`, looked at all the time.

    is_to_end  once true, SIGTERM tells it to end
    """
    command = [sys.executable, "-c", program, *arguments]
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        command, cwd=place, env={**environ, "PYTHONPATH": path}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    seen, has_ended = Seen(), threading.Event()

    def look_on() -> None:
        was_told = False
        while not has_ended.wait(0.2):
            seen.look(process.pid)
            if not was_told and is_to_end():
                process.terminate()
                was_told = True

    looking = threading.Thread(target=look_on)
    looking.start()
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
        has_ended.set()
        looking.join()
    return Ended(process.returncode, out, err, seen)


def tree(pid: int) -> Iterator[int]:
    """A process and all that it started, and those started."""
    yield pid
    for task in _listed(PROC / str(pid) / "task"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _inodes(pid: int) -> set[str]:
    found = set()
    for descriptor in _listed(PROC / str(pid) / "fd"):
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def _listening_sockets() -> dict[str, tuple[str, int]]:
    found = {}
    for name in ("tcp", "tcp6"):
        for line in (PROC / "net" / name).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == _LISTENS:
                address, _, port = local.partition(":")
                found[rest[5]] = (_address(address), int(port, 16))
    return found


def _address(text: str) -> str:
    """The kernel writes each 32 bits in the order of this machine."""
    words = [int(text[place : place + 8], 16).to_bytes(4, sys.byteorder) for place in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
