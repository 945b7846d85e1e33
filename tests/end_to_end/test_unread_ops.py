"""Nobody decided it, says a verdict only where its op would have been seen, in whatever order things land."""

from __future__ import annotations

from datetime import timedelta

import pytest
from histories import HALF_TOPIC, MAX_TIME_TOPIC, OP_TOPIC, START_MS, message_row
from house import BROKER, House, wall_clock
from live_capture import live_capture
from moment import NOW
from small_log import SmallLog

from txmq_lib.pipeline.land.job import run_land_rocketmq

AUDIT = ("role=audit", "file_reserved_time=3650d")


def row(topic: str, offset: int, place: int, name: str, **columns):
    properties = {"UNIQ_KEY": name, "PGROUP": "A", "REAL_TOPIC": "T", "REAL_QID": "0", "TRAN_MSG": "true"}
    return message_row(topic, queue_offset=offset, place=place, born_ms=START_MS, stored_ms=START_MS + place,
                       **{"properties": properties, "body": f"{name} {place}", **columns})  # fmt: skip


def op(offset: int, place: int, body: str):
    return row(OP_TOPIC, offset, place, "op", properties={"TAGS": "d"}, body=body)


HALVES = [row(HALF_TOPIC, 0, 10, "early"), row(HALF_TOPIC, 1, 100, "gone"), row(HALF_TOPIC, 2, 110, "hangs")]
GIVEN_UP = [row(MAX_TIME_TOPIC, 0, 200, "gone")]
OPS = [op(0, 50, "0,"), op(1, 300, "0,")]


class Judged:
    """A house that is audited later and later."""

    def __init__(self, house: House) -> None:
        self.house, self.minutes = house, 0

    def said(self) -> dict[str, tuple[str, str]]:
        self.minutes += 1
        self.house.audit(NOW + timedelta(minutes=self.minutes))
        rows = self.house.rows("verdict")
        return {
            one["transaction_id"]: (one["verdict"], one["reason"]) for one in rows if one["transaction_id"] != "early"
        }


def both(*reasons: str) -> dict[str, tuple[str, str]]:
    return dict(zip(("gone", "hangs"), zip(("DISCARDED", "PENDING"), reasons, strict=True), strict=True))


READ, UNREAD = both("given_up", "undecided"), both("op_unread", "op_unread")


@pytest.mark.long
def test_undecided_ones_say_what_is_missing_until_it_has_landed_and_again_when_more_is(open_house):
    house = open_house(*AUDIT)
    judged = Judged(house)
    house.land_rows("half", HALVES)
    house.land_rows("max-time", GIVEN_UP)
    assert judged.said() == UNREAD
    house.land_rows("op", OPS[:1])
    assert judged.said() == UNREAD
    house.land_rows("op", OPS[1:])
    assert judged.said() == READ
    # One of between is missing.
    house.land_rows("op", [op(3, 500, "0,")])
    assert judged.said() == UNREAD
    house.land_rows("op", [op(2, 400, "0,")])
    assert judged.said() == READ
    # A copy may be missing, whose op names nothing that landed.
    house.land_rows("half", [row(HALF_TOPIC, 4, 450, "late")])
    assert {name: judged.said()[name] for name in READ} == UNREAD


def test_an_op_in_quarantine_takes_from_them_what_they_rest_on(open_house):
    house = open_house(*AUDIT)
    judged = Judged(house)
    for kind, rows in (("half", HALVES), ("max-time", GIVEN_UP), ("op", OPS)):
        house.land_rows(kind, rows)
    assert judged.said() == READ
    house.land_rows("op", [op(2, 400, "1x,")])
    assert judged.said() == UNREAD
    at_once = open_house(*AUDIT, name="once")
    for kind, rows in (("op", [op(2, 400, "1x,"), *OPS]), ("max-time", GIVEN_UP), ("half", HALVES)):
        at_once.land_rows(kind, rows)
    assert Judged(at_once).said() == UNREAD


@pytest.mark.parametrize(
    "topics", [pytest.param("['*']", marks=pytest.mark.long), "['Real']"], ids=["all topics", "one topic"]
)
def test_ops_that_stand_still_have_been_read_to_their_end_whenever_a_half_lands(open_house, tmp_path, topics):
    house, log = open_house(*AUDIT, f"land.topics={topics}"), SmallLog()
    with live_capture("restart", tmp_path, BROKER) as served:
        for name in ("first", "second"):
            log.plain()
            waiting = log.half(name)
            if name == "first":
                log.op(waiting)
            served.broker.queues = log.queues()
            run_land_rocketmq(
                house.warehouse, house.settings, name_servers=[served.address], now=NOW, wall_clock=wall_clock,
                environ={},
            )  # fmt: skip
            house.audit(NOW + timedelta(minutes=len(name)))
    found = {one["transaction_id"]: (one["verdict"], one["reason"]) for one in house.rows("verdict")}
    assert found["second"] == ("PENDING", "undecided")
