"""Which clients of a producer group were connected to a broker as it last landed live (R130). Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from txmq_lib.names import EVERY_GROUP
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

COLUMNS = ("broker_name", "producer_group", "clients", "client_ids", "since_timestamp")


@dataclass(frozen=True)
class Connected:
    """Clients of one group on one broker: how many, who, since which landing (None: none ever), asked when."""

    clients: int
    client_ids: str | None
    since: str | None
    asked: str


ByGroup: TypeAlias = Mapping[tuple[str, str | None], Connected]


def connected(reader: WarehouseReader, groups: Iterable[tuple[str, str | None]]) -> ByGroup:
    """By broker and producer group, of `groups` on brokers that told; the others are left out, since nobody knows.

    A broker that tells of one group at a time has no row of its own: it told of those that have one.
    """
    rows = reader.rows(Scan("connected_producer", COLUMNS, may_be_missing=True))
    newest = {row["broker_name"]: row["since_timestamp"] for row in rows if row["producer_group"] == EVERY_GROUP}
    found = {(row["broker_name"], row["producer_group"]): row for row in rows}
    return {
        (broker, group): _connected(found.get((broker, group)), newest.get(broker))
        for broker, group in groups
        if broker in newest or (broker, group) in found
    }


def _connected(row: Mapping[str, object] | None, newest: str | None) -> Connected:
    if row is None:
        return Connected(0, None, None, str(newest))
    ids, since = row["client_ids"], str(row["since_timestamp"])
    return Connected(int(str(row["clients"])), None if ids is None else str(ids), since, newest or since)
