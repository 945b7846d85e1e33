"""In what a broker may not be set up as by default: a name and words for each, and what a live broker's settings say.

docs/pages/which-brokers.md has a row for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DLEDGER: Final = "dledger"
MULTI_PATH: Final = "multi_path"
ROCKSDB_OFFSETS: Final = "rocksdb_offsets"
ROCKSDB_QUEUES: Final = "rocksdb_queues"
ROCKSDB_HALVES: Final = "rocksdb_halves"
ROCKSDB_CHECKS: Final = "rocksdb_checks"
STATIC_TOPICS: Final = "static_topics"
COMPACTION: Final = "compaction"
LMQ: Final = "lmq"
CONTROLLER: Final = "controller"
TIERED: Final = "tiered"
SLAVE: Final = "slave"
SLAVE_ROLE: Final = "SLAVE"

_CLEANUP_POLICY: Final = ("cleanup.policy", "+cleanup.policy")

CONTROLLER_WORDS: Final = (
    "it is under a controller: after a failover two messages may share a queue offset; the second one to land goes to"
    " quarantine as KEY_CONFLICT (R128)"
)
TIERED_WORDS: Final = (
    "not read, what comes from tiered storage has lost its place in the commit log, and so proves nothing (R134); land"
    " its store"
)
SLAVE_WORDS: Final = (
    "it acts for a master that is gone: what it had not copied is missing until the master is back, and it checks no"
    " half, but sends those that are due to other brokers, or passes them over (R132)"
)
HALVES_WORDS: Final = (
    "it keeps the index of its halves in RocksDB: what it gives up leaves no trace; txmq tells it as DISCARDED_UNSEEN"
    " (R119)"
)


def live_set_ups(config: Mapping[str, str]) -> list[str]:
    """The names of what the settings of a live broker say that is not as by default; it tells all its settings."""
    said = {
        DLEDGER: config.get("enableDLegerCommitLog") == "true",
        CONTROLLER: config.get("enableControllerMode") == "true",
        LMQ: config.get("enableLmq") == "true",
        ROCKSDB_OFFSETS: config.get("storeType") == "defaultRocksDB" or config.get("configManagerVersion") == "v2",
        ROCKSDB_HALVES: has_halves_in_rocksdb(config),
        ROCKSDB_CHECKS: config.get("transRocksDBEnable") == "true" and not has_halves_in_rocksdb(config),
        SLAVE: config.get("brokerRole") == SLAVE_ROLE,
        TIERED: has_tiers(config),
    }
    return [name for name, is_said in said.items() if is_said]


def has_tiers(config: Mapping[str, str]) -> bool:
    """Whether a broker moves messages into tiered storage, as its settings say."""
    is_off = config.get("tieredStorageLevel", "").upper() in ("DISABLE", "0")
    return "TieredMessageStore" in config.get("messageStorePlugIn", "") and not is_off


def has_halves_in_rocksdb(config: Mapping[str, str]) -> bool:
    """Whether a broker keeps the index of its halves in RocksDB alone, as its settings say (R119)."""
    return config.get("transRocksDBEnable") == "true" and config.get("transWriteOriginTransHalfEnable") == "false"


def compaction_topics(topics: object) -> list[str]:
    """The names of those in a table of topic configs (topicConfigTable) that are compacted; RocketMQ's JSON, parsed."""
    table = topics if isinstance(topics, dict) else {}
    return sorted(name for name, topic in table.items() if _is_compacted(topic))


def _is_compacted(topic: object) -> bool:
    attributes = topic.get("attributes") if isinstance(topic, dict) else None
    policies = [attributes.get(key) for key in _CLEANUP_POLICY] if isinstance(attributes, dict) else []
    return any(isinstance(each, str) and each.upper() == "COMPACTION" for each in policies)
