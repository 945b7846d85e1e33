"""A broker's own settings, told by a live one or by its broker.conf, against those of txmq. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from txmq_lib.config.durations import duration_text
from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.names import FLUSH_LATER, ROLE_AUDIT
from txmq_lib.rocketmq.set_ups import (
    CONTROLLER,
    CONTROLLER_WORDS,
    HALVES_WORDS,
    ROCKSDB_HALVES,
    SLAVE,
    SLAVE_ROLE,
    SLAVE_WORDS,
)

HOUR_MS = 3_600_000
# What brokers of 4.9 to 5.5 take where a file says nothing; but for the interval, 60 s or (since 5.1.1) 30 s.
DEFAULTS = {
    "transactionTimeOut": "6000",
    "transactionCheckMax": "15",
    "fileReservedTime": "72",
    "flushDiskType": FLUSH_LATER,
}


def live_findings(config: Mapping[str, str], policy: BrokerPolicy) -> Iterator[str]:
    """As `settings_findings`, of a live broker, which tells all its settings; and that it decides by itself."""
    if policy.role != ROLE_AUDIT:
        yield "its role here is engine, and a live broker decides by itself: give it role: audit"
    yield from settings_findings(config, policy)
    yield from set_up_findings(config)


def set_up_findings(config: Mapping[str, str]) -> Iterator[str]:
    """What follows from how a live broker is set up, each behind the name of the set-up, where anything does."""
    if config.get("transRocksDBEnable") == "true" and config.get("transWriteOriginTransHalfEnable") == "false":
        yield f"{ROCKSDB_HALVES}: {HALVES_WORDS}"
    if config.get("enableControllerMode") == "true":
        yield f"{CONTROLLER}: {CONTROLLER_WORDS}"
    if config.get("brokerRole") == SLAVE_ROLE:
        yield f"{SLAVE}: {SLAVE_WORDS}"


def conf_findings(config: Mapping[str, str], policy: BrokerPolicy) -> Iterator[str]:
    """As `settings_findings`, of a broker.conf: what it does not set is as RocketMQ has it."""
    yield from settings_findings({**DEFAULTS, **config}, policy)


def settings_findings(config: Mapping[str, str], policy: BrokerPolicy) -> Iterator[str]:
    """What in a broker's settings (RocketMQ's names) txmq counts on otherwise, or endangers transactions."""
    yield from limit_differences(config, policy)
    if config.get("flushDiskType") == FLUSH_LATER:
        yield f"flushDiskType is {FLUSH_LATER}: a crash loses up to a second of halves, ends and ops; take SYNC_FLUSH"


def limit_differences(config: Mapping[str, str], policy: BrokerPolicy) -> Iterator[str]:
    """The limits of a broker that txmq counts on otherwise, a sentence each."""
    for name, key, unit_ms, ours in (
        ("transactionTimeOut", "transaction_timeout", 1, policy.transaction_timeout_ms),
        ("transactionCheckInterval", "transaction_check_interval", 1, policy.transaction_check_interval_ms),
        ("fileReservedTime", "file_reserved_time", HOUR_MS, policy.file_reserved_time_ms),
    ):
        theirs = _whole(config.get(name))
        if theirs is not None and theirs * unit_ms != ours:
            yield f"{name} is {duration_text(theirs * unit_ms)}, and {key} here is {duration_text(ours)}"
    theirs = _whole(config.get("transactionCheckMax"))
    if theirs is not None and theirs != policy.transaction_check_max:
        yield f"transactionCheckMax is {theirs}, and transaction_check_max here is {policy.transaction_check_max}"


def _whole(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if is_number and text is not None else None
