"""The broker.conf that lies beside a store: a broker's settings, by RocketMQ's names. Must not judge them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from txmq_lib.files.plain_file import open_plain
from txmq_lib.rocketmq.store import near_store

NAME: Final = "broker.conf"
# RocketMQ's own has a dozen lines; anything above is another file of that name.
MOST_BYTES: Final = 1 << 20
_SEPARATOR: Final = re.compile(r"[=:\s]")


def read_broker_conf(store: str) -> tuple[str, dict[str, str]] | None:
    """The file in the store directory or in the one above it, and what it sets; None where there is none.

    Errors  OSError where it is there and cannot be read, InputError where a far store does not give it
    """
    own = near_store.near(store)
    for directory in (own, own.absolute().parent):
        path = directory / NAME
        if os.path.lexists(path):
            with os.fdopen(open_plain(path), "rb") as file:
                return near_store.called(store, str(path)), dict(_pairs(file.read(MOST_BYTES)))
    return None


def _pairs(data: bytes) -> Iterator[tuple[str, str]]:
    """Names and values, as java.util.Properties splits them; a name that comes again has its last value."""
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            name = _SEPARATOR.split(text, maxsplit=1)[0]
            yield name, text[len(name) :].strip().removeprefix("=").removeprefix(":").strip()
