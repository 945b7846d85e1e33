"""Engine role, pass after pass as time goes by: nobody decided is asked, everybody due is, and giving up is graceful."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from truth import Transaction, key_of, rows

pytestmark = pytest.mark.long

TIMEOUT_MS, INTERVAL_MS, CHECK_MAX = 2_000, 3_000, 3
SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=3")


class Asked(NamedTuple):
    times: int
    last_ms: int


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def deciding_ends() -> dict[Transaction, int]:
    """When the first end that a broker accepts came, per transaction: worked out from the capture alone."""
    halves = {row["commitLogOffset"]: row for row in rows("basic", "half")}
    first: dict[Transaction, int] = {}
    for end in rows("basic", "ends") + rows("basic", "ends_crafted"):
        header = end["header"]
        half = halves.get(int(header["commitLogOffset"]))
        if half is None or header["commitOrRollback"] not in ("8", "12"):
            continue
        stored = half["properties"]
        immunity = stored.get("CHECK_IMMUNITY_TIME_IN_SECONDS", "")
        limit = max(int(immunity) * 1000 if immunity.isdecimal() else 0, TIMEOUT_MS)
        is_late = immunity and header["fromTransactionCheck"] != "true" and end["ts"] - half["bornTimestamp"] > limit
        names_it = (stored["PGROUP"], half["queueOffset"]) == (
            header["producerGroup"],
            int(header["tranStateTableOffset"]),
        )
        if names_it and not is_late:
            key = key_of(half)
            first[key] = min(first.get(key, end["ts"]), end["ts"])
    return first


def check_limit_ms(half: dict) -> int:
    immunity = half["properties"].get("CHECK_IMMUNITY_TIME_IN_SECONDS")
    if immunity is None or not immunity.lstrip("-").isdecimal() or immunity == "-1":
        return TIMEOUT_MS
    return int(immunity) * 1000


def test_passes_at_every_interval_ask_who_is_due_and_give_up_with_grace(open_house):
    house = open_house(*SETTINGS)
    halves = rows("basic", "half")
    ends = rows("basic", "ends") + rows("basic", "ends_crafted")
    decided_at, originals = deciding_ends(), {}
    for half in halves:
        originals.setdefault(key_of(half), half)
    start = min(half["storeTimestamp"] for half in halves)
    checks_of: dict[Transaction, Asked] = defaultdict(lambda: Asked(0, 0))
    given_up: dict[Transaction, int] = {}
    wanted_given_up: set[tuple[Transaction, int]] = set()
    wanted_checks: set[tuple[Transaction, int, int]] = set()
    before = start
    for number in range(1, 12):
        now = start + number * INTERVAL_MS
        new_halves = [half for half in halves if before <= half["storeTimestamp"] < now]
        new_ends = [end for end in ends if before <= end["ts"] < now]
        for kind, new in (("half", new_halves), ("end", new_ends)):
            if new:
                house.land_rows(kind, new, now=moment(now))
        house.reconcile(moment(now))
        before = now
        # A copy that lands after giving up puts the transaction under check again, from the start (R73).
        for key in {key_of(half) for half in new_halves} & given_up.keys():
            del given_up[key], checks_of[key]
        for key, half in originals.items():
            if half["storeTimestamp"] >= now or decided_at.get(key, now) < now or key in given_up:
                continue
            times, last = checks_of[key]
            if times >= CHECK_MAX and now - last >= INTERVAL_MS:
                given_up[key] = now
                wanted_given_up.add((key, now))
            elif (not times and now - half["bornTimestamp"] > check_limit_ms(half)) or (
                0 < times < CHECK_MAX and now - last >= INTERVAL_MS
            ):
                checks_of[key] = Asked(times + 1, now)
                wanted_checks.add((key, times + 1, now))
    checks = {
        (
            Transaction(row["transaction_id"], to_ms(row["born_timestamp"])),
            row["check_times"],
            to_ms(row["check_timestamp"]),
        )
        for row in house.rows("check_request")
    }
    assert len(wanted_checks) > 30
    assert checks == wanted_checks
    ours = {
        (Transaction(row["transaction_id"], to_ms(row["born_timestamp"])), to_ms(row["given_up_timestamp"]))
        for row in house.rows("trans_check_max_time")
    }
    assert len(wanted_given_up) >= 5
    assert ours == wanted_given_up
    reasons = {(row["reason"], row["check_times"]) for row in house.rows("trans_check_max_time")}
    assert reasons == {("check_max", CHECK_MAX)}


def to_ms(value: datetime) -> int:
    return int(value.timestamp() * 1000 + 0.5)
