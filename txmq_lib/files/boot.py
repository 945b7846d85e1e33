"""Which start of this machine it is: what was written since then no power cut has touched."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """A name of this start, of this machine alone; empty where the system tells none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
