"""Files of this machine by their paths and patterns, whatever bytes their names are. Must not know Spark.

Java sees a name only where it is text in the locale, and Hadoop none with a colon: both would pass such a file over.
"""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

LOCAL_SCHEME = re.compile(r"^file:/+")
_OTHER_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")
_LEGAL = "/:@&=+$,;~!*'()-_."  # what java.net.URI leaves in a path as it is
_ESCAPED = re.compile(r"\\(.)")
_CLASS = re.compile(r"\[\^")


def has_scheme(path: str) -> bool:
    """True for a URI of another file system than this machine's."""
    return bool(_OTHER_SCHEME.match(path)) and not LOCAL_SCHEME.match(path)


def found(path: str) -> list[str]:
    """What lies at an absolute form of `path`; else what fits it as a pattern of Hadoop's, sorted."""
    place = os.path.abspath(LOCAL_SCHEME.sub("/", path))
    if os.path.lexists(place):
        return [place]
    fits = {each for plain in _alternatives(place) for each in glob.iglob(_as_pythons(plain), include_hidden=True)}
    return sorted(fits, key=os.fsencode)


def has_size(file: Path, size: int | None) -> bool:
    """Whether a file is there, and in its size where that is known."""
    try:
        return file.stat().st_size == size or size is None
    except (FileNotFoundError, NotADirectoryError):
        return False


def uri_of(path: str) -> str:
    """`file:/...` as Java writes it; a byte that is no UTF-8 as %XX."""
    return "file:" + "".join(map(_quoted, path))


def path_of(uri: str) -> bytes:
    """The path that `uri_of` made a URI of."""
    return unquote_to_bytes(uri.removeprefix("file:").encode("utf-8"))


def is_text(path: str) -> bool:
    """Whether the path is UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in path)


def _quoted(character: str) -> str:
    if character < "\x80":
        return quote(character, safe=_LEGAL)
    if unicodedata.category(character)[0] in "ZC":  # separators, controls, and bytes that are no text
        return quote(os.fsencode(character))
    return character


def _alternatives(pattern: str) -> Iterator[str]:
    """The patterns without braces that `{a,b}` stands for."""
    inner = re.search(r"(?<!\\)\{((?:\\.|[^{}\\])*)\}", pattern)
    if inner is None:
        yield pattern
        return
    for choice in re.split(r"(?<!\\),", inner[1]):
        yield from _alternatives(pattern[: inner.start()] + choice + pattern[inner.end() :])


def _as_pythons(pattern: str) -> str:
    """A pattern of Hadoop's as Python's glob has it: no backslashes, and `[!a]` for `[^a]`."""
    return _CLASS.sub("[!", _ESCAPED.sub(lambda escaped: glob.escape(escaped[1]), pattern))
