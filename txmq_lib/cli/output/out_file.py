"""The file of `--out`, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from txmq_lib.errors import UsageError
from txmq_lib.files.atomic_file import write_whole


def write_out(out: str, text: str) -> None:
    """Put `text` in the place of the file of `--out`; UsageError where it cannot be written."""
    try:
        write_whole(Path(out), text)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from error
