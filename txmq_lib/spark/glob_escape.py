"""Paths that are no patterns, for those who take every path for one."""

from __future__ import annotations

import re


def pattern_of(path: str) -> str:
    """The pattern that only `path` fits, for Spark's readers: its own brackets, stars and the like escaped."""
    return re.sub(r"([][{}*?\\])", r"\\\1", path)
