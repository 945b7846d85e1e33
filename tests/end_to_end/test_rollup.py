"""Rollup passes: real consumers end where their broker ended, acknowledgements where R107 says."""

from __future__ import annotations

import json
import os
import re

import pytest
import truth
from house import BROKER

T0 = 1_795_262_400_000


def reports_of_consumers():
    for row in truth.rows("consumer", "rpc_offsets"):
        if row["cmd"] == "UPDATE_CONSUMER_OFFSET":
            header = row["header"]
            yield {
                "ts": row["ts"],
                "group": header["consumerGroup"],
                "topic": header["topic"],
                "queueId": header["queueId"],
                "offset": header["commitOffset"],
                "clientId": row["client"],
            }


def polled_offsets():
    for row in truth.rows("consumer", "consumer_offsets"):
        if row["brokerOffset"] >= 0:
            place = {"group": row["group"], "topic": row["topic"], "queueId": row["queueId"]}
            yield {"ts": row["ts"], **place, "offset": row["brokerOffset"], "increaseOnly": False}


def broker_file(*groups):
    """The offsets of some groups (none given: all) in the broker's consumerOffset.json with unquoted queue ids (R89)."""
    text = (truth.CAPTURES / "consumer" / "config" / "consumerOffset.json").read_text(encoding="utf-8")
    table = json.loads(re.sub(r"([{,]\s*)(\d+)\s*:", r'\1"\2":', text))["offsetTable"]
    return {
        (group, topic, int(queue)): offset
        for key, queues in table.items()
        for topic, group in [key.split("@", 1)]
        if not groups or group in groups
        for queue, offset in queues.items()
    }


def next_offsets(house, broker, *groups):
    return {
        (row["consumer_group"], row["topic"], row["queue_id"]): row["next_offset"]
        for row in house.rows("consumer_offset")
        if row["broker_name"] == broker and (not groups or row["consumer_group"] in groups)
    }


@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_reports_of_real_consumers_end_at_the_brokers_values_and_its_resets_are_listed(open_house, is_small):
    house = open_house()
    reports = list(reports_of_consumers())
    # The later half lands first, so that every queue is judged again from its history.
    house.land_rows("offset", reports[500:], broker="reported")
    house.rollup()
    house.land_rows("offset", reports[:500], broker="reported")
    house.land_rows("offset", polled_offsets(), broker="polled")
    report = house.rollup()
    groups = ("CG_TAG", "CG_CLUSTER")
    expected = broker_file(*groups)
    assert len(expected) == 18
    assert next_offsets(house, "reported", *groups) == expected
    rows = {(row["broker_name"], row["consumer_group"], row["queue_id"]): row for row in house.rows("consumer_offset")}
    rewinds = {
        key: [(one["from_offset"], one["to_offset"]) for one in row["rewinds"]]
        for key, row in rows.items()
        if row["rewind_count"]
    }
    # As the administrator set it back: README of the captures.
    assert rewinds == {
        ("polled", "CG_RESET", 0): [(107, 27), (107, 50)],
        ("polled", "CG_RESET", 1): [(106, 27), (106, 50)],
    }
    assert report.counts["rewinds"] == 4
    counted = [row["report_count"] for row in house.rows("consumer_offset") if row["broker_name"] == "reported"]
    assert sum(counted) == len(reports)
    before = house.versions()
    assert house.rollup().counts == {"idle": 1}
    assert house.versions() == before


def test_the_brokers_own_file_gives_its_values_and_landing_it_again_nothing(open_house):
    house = open_house()
    path = truth.CAPTURES / "consumer" / "config" / "consumerOffset.json"
    house.land("offset", path)
    house.rollup()
    expected = broker_file()
    assert ("CG_BCAST@broadcast", "TopicR", 0) in expected
    assert next_offsets(house, BROKER) == expected
    before = house.versions()
    house.land("offset", path)
    house.rollup()
    assert house.versions() == before


def test_an_older_copy_of_the_brokers_own_file_tells_nothing_that_it_told_before(open_house, tmp_path):
    house = open_house()
    older, newer = tmp_path / "1" / "consumerOffset.json", tmp_path / "2" / "consumerOffset.json"
    for second, (path, offset) in enumerate({older: 5, newer: 7}.items()):
        path.parent.mkdir()
        path.write_text(json.dumps({"offsetTable": {"T@G": {"0": offset}}}), encoding="utf-8")
        os.utime(path, (T0 / 1000 + second, T0 / 1000 + second))
    for path in (older, newer):
        house.land("offset", path)
    before = house.versions()
    house.land("offset", older)
    assert sorted(row["next_offset"] for row in house.rows("consumer_offset_commit")) == [5, 7]
    assert house.versions() == before


def ack(second, event, *offsets, client="A", queue=0):
    place = {"group": "G", "topic": "T", "queueId": queue, "clientId": client}
    return {"ts": T0 + second * 1_000, **place, "event": event, "offsets": list(offsets)}


FIRST = [ack(1, "allocated"), ack(2, "taken", 0, 1, 2, 3), ack(3, "acked", 0, 2), ack(1, "taken", 9, queue=1)]
SECOND = [
    ack(4, "acked", 1),
    ack(5, "taken", 4),
    ack(6, "dropped"),
    ack(7, "acked", 3),
    ack(8, "allocated", client="B"),
]
THIRD = [ack(9, "taken", 3, 4, client="B"), ack(10, "acked", 4, client="B")]


def rolled_up(house):
    offsets = {
        row["queue_id"]: tuple(row[name] for name in ("next_offset", "client_id", "report_count", "redelivery_count"))
        for row in house.rows("consumer_offset")
    }
    found = sorted(row["next_offset"] for row in house.rows("consumer_offset_commit") if row["origin"] == "ack")
    return offsets, found


@pytest.mark.long
@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_acknowledgements_report_their_safe_offset_pass_after_pass(open_house, is_small):
    house = open_house()
    house.land_rows("ack", FIRST)
    house.rollup()
    # 1 pins: 0 is done, 1 to 3 were taken and come again. Queue 1 is held by nobody.
    assert rolled_up(house) == ({0: (1, "A", 1, 3)}, [1])
    house.land_rows("ack", SECOND)
    house.rollup()
    # 1 and 2 are done now; what A acknowledged after it dropped the queue is not; B holds it and has taken nothing.
    assert rolled_up(house) == ({0: (3, "A", 2, 0)}, [1, 3])
    house.land_rows("ack", THIRD)
    house.rollup()
    # 4 is done above the gap at 3: the report is 3 again, and both come again.
    assert rolled_up(house) == ({0: (3, "A", 3, 2)}, [1, 3, 3])
    before = house.versions()
    house.rollup()
    assert house.versions() == before


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_acknowledgements_of_a_time_before_the_newest_report_count_as_well(open_house, is_small):
    house = open_house()
    house.land_rows("offset", [{"ts": T0 + 10_000, "group": "G", "topic": "T", "queueId": 0, "offset": 1}])
    house.rollup()
    house.land_rows("ack", [ack(1, "allocated"), ack(2, "taken", 0, 1, 2, 3), ack(3, "acked", 0, 1, 2, 3)])
    house.rollup()
    # All four are done since second 3: the report of second 10 moves nothing back (R84).
    assert rolled_up(house) == ({0: (4, "A", 2, 0)}, [4])


@pytest.mark.long
@pytest.mark.parametrize("is_small", [True, False], indirect=True)
@pytest.mark.parametrize("last_write", ["from_acks", "consumer_offset"])
def test_a_rollup_killed_after_a_write_and_run_again_ends_as_if_never_killed(open_house, copied, last_write, is_small):
    house = open_house()
    house.land_rows("ack", FIRST)
    house.land_rows("offset", [{"ts": T0 + 2_500, "group": "G", "topic": "T", "queueId": 0, "offset": 1}])
    unharmed = copied(house, "unharmed")
    unharmed.rollup()

    with house.killed_after(last_write):
        house.rollup()
    house.rollup()
    assert rolled_up(house) == rolled_up(unharmed) == ({0: (1, None, 2, 3)}, [1])
    for table in ("consumer_offset", "consumer_offset_commit"):
        assert by_text(house.rows(table)) == by_text(unharmed.rows(table))


def by_text(rows):
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)
