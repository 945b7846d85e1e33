"""Of undecided transactions, what keeps anybody from asking about them: a cursor, a set-up, a client that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txmq_lib import names
from txmq_lib.views import story
from txmq_lib.views.connected import connected
from txmq_lib.views.cursors import not_looking_into_rocksdb, passed_over, stopped_checks
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.story import Events, Key, Row, key_of


def stopped_events(reader: WarehouseReader, found: dict[str, list[dict[str, Any]]]) -> Events:
    """Of undecided transactions, those whose newest half lies behind a check cursor that stands."""
    undecided = {key_of(row) for row in found["pending_half"]}
    undecided |= {key_of(row) for row in found["verdict"] if row["verdict"] in names.STILL_ASKED}
    if not undecided:
        return []
    stopped = {(each.broker_name, each.queue_id): each for each in stopped_checks(reader)}
    newest = {key_of(row): row for row in sorted(found["half_message"], key=lambda row: row["commit_log_offset"])}
    events: Events = []
    for key in sorted(undecided & newest.keys(), key=str):
        half = newest[key]
        queue = stopped.get((half["broker_name"], half["queue_id"]))
        if queue is not None and half["queue_offset"] >= (queue.half_offset or 0):
            events.append((key, story.stopped_event(half, queue)))
    events += _passed_events(reader, undecided)
    events += _left_events(reader, {key: newest[key] for key in undecided & newest.keys()})
    return events


def _passed_events(reader: WarehouseReader, undecided: set[Key]) -> Events:
    """Of undecided transactions, those that the checks of their broker have passed over."""
    events: Events = []
    for queue in passed_over(reader, first={str(key[1]) for key in undecided}):
        for values in queue.keys:
            row = dict(zip(names.TRANSACTION_KEY, values, strict=True))
            if key_of(row) in undecided:
                events.append((key_of(row), story.passed_over_event(row, queue)))
    return events


def _left_events(reader: WarehouseReader, halves: Mapping[Key, Row]) -> Events:
    """Of undecided transactions, those whose half lies in RocksDB, where their broker looks no more."""
    in_rocksdb = {key: half for key, half in halves.items() if half["queue_id"] == names.ROCKSDB_QUEUE_ID}
    brokers = not_looking_into_rocksdb(reader) if in_rocksdb else {}
    return [
        (key, story.left_in_rocksdb_event(half, brokers[half["broker_name"]]))
        for key, half in sorted(in_rocksdb.items(), key=str)
        if half["broker_name"] in brokers
    ]


def connected_events(reader: WarehouseReader, found: dict[str, list[dict[str, Any]]]) -> Events:
    """Of undecided transactions, whether anybody of their group could be asked."""
    undecided = {key_of(row) for row in found["verdict"] if row["verdict"] in names.UNDECIDED}
    undecided |= {key_of(row) for row in found["pending_half"]}
    if not undecided:
        return []
    keys = [dict(zip(names.TRANSACTION_KEY, key, strict=True)) for key in sorted(undecided, key=str)]
    known = connected(reader, [(key["broker_name"], key["producer_group"]) for key in keys])
    places = [(key, known.get((key["broker_name"], key["producer_group"]))) for key in keys]
    return [(key_of(key), story.connected_event(key, each)) for key, each in places if each is not None]
