"""Links, pipes, sockets, devices and holes in the place of any file of a store: never read, waited for or passed over."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from txmq_lib.errors import InputError
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store.consume_queue import queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import consumer_offset_state, read_consumer_offset_file

SECRET = "root:x:0:0:the words of another file"
REFUSED = re.compile(r"no plain file|is a link, a pipe or a device")
BASE = "0" * 20
PLACES = ("config/consumerOffset.json", "config/consumerOffset.json.bak", "broker.conf")
PLACES += (f"commitlog/{BASE}", f"consumequeue/T/0/{BASE}")


def _link(target: str) -> Callable[[Path], None]:
    return lambda place: place.symlink_to(target)


def _socket(place: Path) -> None:
    # The name of a socket has a hundred bytes at most.
    before = os.getcwd()
    os.chdir(place.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(before)


def _hole(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


def planted(chance: Random) -> int:
    """Some of a store's files are something else: each reader says so, and no word of another file comes out."""
    with TemporaryDirectory() as directory:
        store, victim = Path(directory, "store"), Path(directory, "victim")
        victim.write_text(SECRET, encoding="utf-8")
        links = [_link(to) for to in (str(victim), "/dev/zero", "/dev/random", directory, "nowhere", "../config", BASE)]
        for name in chance.sample(PLACES, chance.randrange(1, len(PLACES) + 1)):
            place = store / name
            place.parent.mkdir(parents=True, exist_ok=True)
            chance.choice([*links, os.mkfifo, _socket] + ([_hole] if name.startswith("config") else []))(place)
        answers_in_words = [
            _told(lambda: read_consumer_offset_file(str(store))),
            _told(lambda: consumer_offset_state(str(store))),
            _told(lambda: read_broker_conf(str(store))),
            _told(lambda: log_end(list_files(str(store)).files)),
            _told(lambda: queue_bounds(str(store), lowest_commit_log_offset=0, end_commit_log_offset=100)),
        ]
        assert not any("root:x" in words for words in answers_in_words), answers_in_words
        for name, words in zip(
            ("broker.conf", f"commitlog/{BASE}", f"consumequeue/T/0/{BASE}"), answers_in_words[2:], strict=True
        ):
            assert not os.path.lexists(store / name) or REFUSED.search(words), (name, words)
    return 1


def _told(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except (InputError, OSError) as error:
        return str(error)
