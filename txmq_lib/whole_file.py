"""A small file written in one piece: whoever reads it never sees half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Put `text` in the place of what the file holds. OSError where it cannot be written."""
    half_way = path.with_name(f".{path.name}.{os.getpid()}")
    half_way.write_text(text, encoding="utf-8")
    half_way.replace(path)
