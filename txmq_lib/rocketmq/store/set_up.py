"""How the broker of a store is set up, as its files and its broker.conf say: what can be read of it, and what not.

Must not read records. Every set-up has a name; docs/pages/which-brokers.md has a row for each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from txmq_lib.errors import StoreRefusedError
from txmq_lib.files.plain_file import read_plain
from txmq_lib.rocketmq.lenient_json import parsed
from txmq_lib.rocketmq.set_ups import (
    COMPACTION,
    CONTROLLER,
    CONTROLLER_WORDS,
    DLEDGER,
    HALVES_WORDS,
    LMQ,
    MULTI_PATH,
    ROCKSDB_HALVES,
    ROCKSDB_OFFSETS,
    ROCKSDB_QUEUES,
    SLAVE,
    SLAVE_ROLE,
    STATIC_TOPICS,
    TIERED,
    compaction_topics,
    has_halves_in_rocksdb,
    has_tiers,
)
from txmq_lib.rocketmq.store import near_store
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import COMMIT_LOG_DIR
from txmq_lib.rocketmq.store.consume_queue import CONSUME_QUEUE_DIR

# Directories of RocksDB that hold consumer offsets (R125); each has a file CURRENT.
OFFSETS_IN_ROCKSDB: Final = ("config/consumerOffsets", "config/metadata", "config/rdb")
QUEUES_IN_ROCKSDB: Final = (CONSUME_QUEUE_DIR, f"{CONSUME_QUEUE_DIR}_rocksdb")
EPOCH_FILE: Final = "epochFileCheckpoint"
MOST_BYTES: Final = 64 << 20  # of a table of topics
MOST_NAMED: Final = 5

_LOG_FILE: Final = re.compile(r"[0-9]{20}")
_MULTI_PATH_SPLITTER: Final = ","  # unless a system property of the broker says another


class Trait(NamedTuple):
    """One thing in which a broker is not set up as by default: its name, what follows from it, and what to do."""

    name: str
    words: str
    to_do: str = ""


@dataclass(frozen=True)
class StoreSetUp:
    """What is known of a store before anything of it is read.

    refused  why nothing of it can be read; empty: it can
    notable  what else is not as by default
    """

    refused: tuple[Trait, ...]
    notable: tuple[Trait, ...]

    def has(self, name: str) -> bool:
        """Whether the set-up of this name was found."""
        return any(trait.name == name for trait in (*self.refused, *self.notable))


def set_up_of(store: str) -> StoreSetUp:
    """How the broker of a store is set up."""
    return store_set_up(store, config_of(store))


def config_of(store: str) -> dict[str, str]:
    """What the broker.conf of a store sets; nothing where there is none that can be read (a landing tells it)."""
    try:
        found = read_broker_conf(store)
    except OSError:
        found = None
    return {} if found is None else found[1]


def require_readable(set_up: StoreSetUp, store: str) -> None:
    """StoreRefusedError with every reason why a store cannot be read, and what to do about it."""
    if set_up.refused:
        words = "; ".join(f"{trait.name}: {trait.words}; {trait.to_do}" for trait in set_up.refused)
        raise StoreRefusedError(f"the store {store} is not read, and nothing of it lands: {words}")


def store_set_up(store: str, config: Mapping[str, str]) -> StoreSetUp:
    """The set-up of a store directory; `config` is its broker.conf, empty where there is none."""
    root = near_store.near(store)
    refused = (*_dledger(root, config), *_spread(root, config))
    notable = (*_log_elsewhere(root, config), *_notable(root, config))
    return StoreSetUp(_called(store, refused), _called(store, notable))


def _called(store: str, traits: Iterable[Trait]) -> tuple[Trait, ...]:
    say = partial(near_store.called, store)
    return tuple(Trait(trait.name, say(trait.words), say(trait.to_do)) for trait in traits)


def _dledger(root: Path, config: Mapping[str, str]) -> Iterator[Trait]:
    found = sorted(str(each) for each in root.glob("dledger-*/data") if _has_log_files(each))
    if found or config.get("enableDLegerCommitLog") == "true":
        where = found[0] if found else "enableDLegerCommitLog is true"
        yield Trait(
            DLEDGER,
            f"its log is kept by DLedger ({where}): entries lie behind headers of their own, and the newest may never"
            " be committed (R124)",
            "land the live broker (txmq land rocketmq); no log of DLedger is read from disk",
        )


def _spread(root: Path, config: Mapping[str, str]) -> Iterator[Trait]:
    own = root / COMMIT_LOG_DIR
    # Paths that a file names which came with the store are not followed: they may be of another machine.
    if _MULTI_PATH_SPLITTER in config.get("storePathCommitLog", ""):  # and then readOnlyCommitLogStorePaths as well
        yield Trait(
            MULTI_PATH,
            "its log is spread over several directories (storePathCommitLog)",
            f"bring the files of all of them into {own} (no two have one name), and let storePathCommitLog in the"
            " broker.conf beside it name that directory alone",
        )
    elif (named := config.get("storePathCommitLog")) and not own.is_dir():
        yield Trait(MULTI_PATH, f"its log lies elsewhere: storePathCommitLog is {named}", f"bring it into {own}")


def _log_elsewhere(root: Path, config: Mapping[str, str]) -> Iterator[Trait]:
    """Told where a broker.conf names another log than the one that is read, here or where the store came from."""
    named, store, own = config.get("storePathCommitLog"), config.get("storePathRootDir"), root / COMMIT_LOG_DIR
    if not named or Path(named) == own or not own.is_dir():
        return
    # RocketMQ's storePathRootDir is the directory `store` of a home, unless it is set.
    parts = Path(named).parts
    is_of_store = parts == (*Path(store).parts, COMMIT_LOG_DIR) if store else parts[-2:] == ("store", COMMIT_LOG_DIR)
    if not is_of_store:
        yield Trait(
            MULTI_PATH,
            f"storePathCommitLog is {named}, and {own} is read: is it no copy of that one, it is a log of before",
        )


def _notable(root: Path, config: Mapping[str, str]) -> Iterator[Trait]:
    in_rocksdb = [each for each in OFFSETS_IN_ROCKSDB if _is_rocksdb(root / each)]
    is_set = config.get("storeType") == "defaultRocksDB" or config.get("configManagerVersion") == "v2"
    if in_rocksdb or is_set:
        yield Trait(
            ROCKSDB_OFFSETS,
            f"its consumer offsets are in RocksDB ({in_rocksdb[0] if in_rocksdb else 'as its broker.conf says'}):"
            " consumerOffset.json, if there is one, is stale and was not read (R125)",
            "land the live broker for offsets",
        )
    if any(_is_rocksdb(root / each) for each in QUEUES_IN_ROCKSDB):
        yield Trait(
            ROCKSDB_QUEUES,
            "its consume queues are in RocksDB: only the log tells where queues end",
        )
    if topics := _static_topics(root):
        yield Trait(STATIC_TOPICS, f"static topics, read as this broker numbers their queues (R122): {_listed(topics)}")
    if topics := _compaction_topics(root):
        yield Trait(
            COMPACTION, f"compaction topics, whole in its log as far as retention kept them (R123): {_listed(topics)}"
        )
    if _table(root, "lmqConsumerOffset.json", "offsetTable"):
        yield Trait(LMQ, "offsets of LMQ groups (lmqConsumerOffset.json) are not read")
    if config.get("enableControllerMode") == "true" or (root / EPOCH_FILE).exists():
        yield Trait(CONTROLLER, CONTROLLER_WORDS)
    if has_tiers(config):
        yield Trait(TIERED, "what its log does not keep any more lies in tiered storage, and is not read")
    if config.get("brokerRole") == SLAVE_ROLE:
        yield Trait(SLAVE, "it is a slave: what it had not copied from its master is missing at the end")
    if has_halves_in_rocksdb(config):
        yield Trait(ROCKSDB_HALVES, HALVES_WORDS)


def _compaction_topics(root: Path) -> list[str]:
    return compaction_topics(_table(root, "topics.json", "topicConfigTable"))


def _static_topics(root: Path) -> list[str]:
    return sorted(_table(root, "topicQueueMapping.json", "topicQueueMappingInfoMap"))


def _table(root: Path, name: str, key: str) -> dict[str, Any]:
    """A table of one of the broker's files of settings; empty where there is none that can be read."""
    for path in (root / "config" / name, root / "config" / f"{name}.bak"):
        try:
            document = parsed(read_plain(path, MOST_BYTES))
        except (OSError, ValueError):
            continue
        found = document.get(key) if isinstance(document, dict) else None
        if isinstance(found, dict):
            return found
    return {}


def _has_log_files(directory: Path) -> bool:
    try:
        return any(_LOG_FILE.fullmatch(entry.name) for entry in os.scandir(directory))
    except OSError:
        return True  # it may not be listed: something is there


def _is_rocksdb(directory: Path) -> bool:
    return (directory / "CURRENT").is_file()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
