"""A file written whole or not at all: whoever reads it must never see half of it."""

from __future__ import annotations

import os
from pathlib import Path

from txmq_lib.errors import UsageError


def write_whole(out: str, text: str) -> None:
    """Put `text` in the place of the file of `--out`; UsageError where it cannot be written."""
    path = Path(out)
    half_way = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half_way.write_text(text, encoding="utf-8")
        half_way.replace(path)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from error
