"""Who runs this process, as the pass log and the table of runs have it."""

from __future__ import annotations

import getpass
import os
import socket


def started_by() -> str:
    """`user@host`; the number of a user who has no name, as in a container."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
