"""A topic deleted takes its messages from the network and keeps them in the log alone: no rollback is proved by that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from house import BROKER, House, wall_clock
from live_capture import LiveCapture, live_capture
from moment import NOW
from record_encoder import write_log
from small_log import Row, SmallLog, encoded

from txmq_lib.pipeline.land.job import run_land_rocketmq

AUDIT = "role=audit"
REAL = ("Real", 0)


@pytest.fixture
def served(tmp_path: Path):
    with live_capture("restart", tmp_path, BROKER) as capture:
        yield capture


class Deleting(SmallLog):
    """A log of a broker whose topic Real can be deleted."""

    deleted_upto = -1

    def delete(self) -> None:
        self.deleted_upto = self.rows[-1]["commitLogOffset"]
        self.ends.pop(REAL, None)

    def kept(self, kind: str) -> list[Row]:
        """What a client can read now."""
        return [row for row in self.of(kind, tells_end=False) if self.is_there(row)]

    def is_there(self, row: Row) -> bool:
        return row["topic"] != "Real" or row["commitLogOffset"] > self.deleted_upto

    def queues(self) -> dict[tuple[str, int], list[bytes]]:
        shown = SmallLog([row for row in self.rows if self.is_there(row)])
        return shown.queues()


def decided(log: SmallLog) -> None:
    """A transaction committed and one rolled back."""
    done, back = log.half("done"), log.half("back")
    log.commit(done)
    log.op(done, back)


def land_live(house: House, served: LiveCapture, log: SmallLog) -> None:
    served.broker.queues = log.queues()
    run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[served.address], now=NOW, wall_clock=wall_clock, environ={}
    )


def said(house: House, minutes: int = 0) -> dict[str, tuple[str, str]]:
    house.audit(NOW + timedelta(minutes=minutes))
    found = {row["transaction_id"]: (row["verdict"], row["reason"]) for row in house.rows("verdict")}
    return {name: one for name, one in found.items() if name != "first"}


def unknown(reason: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(("done", "back"), ("RESOLVED_UNKNOWN", reason))


@pytest.mark.long
def test_a_queue_that_a_live_broker_has_not_got_proves_nothing_and_an_empty_one_that_it_has_does(open_house, served):
    house, log = open_house(AUDIT), Deleting()
    decided(log)
    log.op(log.half("never", topic="Empty"))
    log.plain("Other")
    log.delete()
    queues = log.queues()
    queues["Empty", 0] = []
    log.queues = lambda: queues
    land_live(house, served, log)
    assert said(house) == {**unknown("untold"), "never": ("ROLLED_BACK", "from_beginning")}
    before = house.versions()
    land_live(house, served, log)
    assert house.versions() == before


@pytest.mark.long
def test_what_a_topic_got_between_two_landings_is_not_read_once_it_is_deleted(open_house, served):
    house, log = open_house(AUDIT), Deleting()
    log.op(log.half("first", topic="Other"))
    log.plain()
    log.plain("Other")
    land_live(house, served, log)
    decided(log)
    log.delete()
    log.plain("Other")
    for minutes in range(2):
        land_live(house, served, log)
        assert said(house, minutes) == unknown("untold")
        log.plain("Other")
    before = house.versions()
    log.rows.pop()
    land_live(house, served, log)
    assert house.versions() == before


@pytest.mark.long
def test_a_topic_made_anew_between_two_landings_proves_nothing_of_what_was_deleted(open_house, served):
    house, log = open_house(AUDIT), Deleting()
    log.op(log.half("first", topic="Other"))
    for _ in range(3):
        log.plain()
    land_live(house, served, log)
    decided(log)
    log.delete()
    log.plain()
    land_live(house, served, log)
    assert said(house) == unknown("untold")
    for _ in range(6):
        log.plain()
    land_live(house, served, log)
    assert {verdict for verdict, _ in said(house, 1).values()} == {"RESOLVED_UNKNOWN"}
    # What comes now is proved by the queue as it is.
    log.op(log.half("new"))
    log.plain()
    land_live(house, served, log)
    found = said(house, 2)
    assert found.pop("new") == ("ROLLED_BACK", "read_past_op")
    assert {verdict for verdict, _ in found.values()} == {"RESOLVED_UNKNOWN"}


def test_a_topic_made_anew_between_files_and_the_first_live_landing_proves_nothing_however_many_it_has(
    open_house, served
):
    house, log = open_house(AUDIT), Deleting()
    for _ in range(3):
        log.plain()
    house.land_rows("message", log.kept("message"))
    decided(log)
    log.delete()
    for _ in range(3):
        log.plain()
    land_live(house, served, log)
    assert said(house) == unknown("untold")


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_files_of_a_topic_made_anew_go_on_behind_a_hole(open_house, times):
    house, log = open_house(AUDIT), Deleting()
    for _ in range(3):
        log.plain()
    house.land_rows("message", log.kept("message"))
    decided(log)
    log.delete()
    for _ in range(times):
        for _ in range(4):
            log.plain()
        for kind in ("half", "op", "message"):
            house.land_rows(kind, log.kept(kind))
        assert {verdict for verdict, _ in said(house, times).values()} == {"RESOLVED_UNKNOWN"}


@pytest.mark.long
def test_a_topic_made_anew_before_it_was_first_read_is_told_by_the_reason_and_settled_by_the_store(
    open_house, tmp_path
):
    house, log = open_house(AUDIT), Deleting()
    decided(log)
    log.delete()
    for _ in range(2):
        log.plain()
    for kind in ("half", "op", "message"):
        house.land_rows(kind, log.kept(kind))
    # Nobody can tell by files alone, and the reason says so.
    assert said(house) == dict.fromkeys(("done", "back"), ("ROLLED_BACK", "from_beginning"))
    store = write_log(tmp_path / "store", [b"".join(encoded(row) for row in log.rows)], file_size=4096)
    house.land_store(store)
    found = said(house, 1)
    assert found["done"][0] in ("COMMITTED", "RESOLVED_UNKNOWN")
