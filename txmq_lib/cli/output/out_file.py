"""The file of `--out`, written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from txmq_lib.errors import UsageError
from txmq_lib.files.atomic_file import write_whole


def require_place(out: str) -> None:
    """UsageError where no file of `--out` can be made, before long work is done for it."""
    directory = Path(out).parent
    if not directory.is_dir():
        raise _unwritable(out, errno.ENOTDIR if directory.exists() else errno.ENOENT)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _unwritable(out, errno.EACCES)


def write_out(out: str, text: str) -> None:
    """Put `text` in the place of the file of `--out`; UsageError where it cannot be written."""
    try:
        write_whole(Path(out), text)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from error


def _unwritable(out: str, number: int) -> UsageError:
    return UsageError(f"--out {out} cannot be written: {os.strerror(number)}")
