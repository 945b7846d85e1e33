"""Offsets used again, by a broker made anew under its old name or cut back by a crash: who came first has the key."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from histories import HALF_TOPIC, OP_TOPIC, START_MS, message_row
from house import BROKER, House, wall_clock
from live_capture import live_capture
from moment import NOW
from small_log import FILE_BYTES, SmallLog, spoil
from test_passes_model import ms
from true_broker import START_MS as BORN_MS
from true_broker import TrueBroker

from txmq_lib.config.settings import Settings
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.land.store import known_logs, store_plan

AUDIT = ("role=audit", "file_reserved_time=3650d")
KINDS = ("half", "op", "message", "max_time")
BODY_AT = 88  # of a record whose hosts are of four bytes: behind the 84 before it and its length
LATER = NOW + timedelta(minutes=1)


def row(topic: str, offset: int, place: int, name: str, **fields):
    properties = {"UNIQ_KEY": name, "PGROUP": "A", "REAL_TOPIC": "T", "REAL_QID": "0", "TRAN_MSG": "true"}
    return message_row(topic, queue_offset=offset, place=place, born_ms=START_MS, stored_ms=START_MS + place,
                       **{"properties": properties, "body": f"{name} {place}", **fields})  # fmt: skip


def verdicts(house: House) -> dict[str, tuple[str, str, bool]]:
    house.audit(LATER)
    return {one["transaction_id"]: (one["verdict"], one["reason"], one["is_settled"]) for one in house.rows("verdict")}


@pytest.mark.long
def test_a_proof_that_stood_falls_when_a_record_comes_that_its_queue_had_no_room_for(open_house):
    house = open_house(*AUDIT)
    house.land_rows("half", [row(HALF_TOPIC, number, 100 + number, f"back{number}") for number in range(2)])
    ops = [
        row(OP_TOPIC, number, 200 + number, "op", properties={"TAGS": "d"}, body=f"{number},") for number in range(2)
    ]
    house.land_rows("op", ops)
    house.land_rows("message", [row("T", number, place, "plain") for number, place in enumerate((50, 60, 900))])
    proved = ("ROLLED_BACK", "read_past_op", True)
    assert verdicts(house) == {"back0": proved, "back1": proved}
    # Behind the op, and of another half offset: neither may be theirs.
    house.land_rows("message", [row("T", 2, 300, "other", sys_flag=8, prepared=250)])
    house.land_rows("half", [row(HALF_TOPIC, 7, 400, "late"), row(HALF_TOPIC, 7, 410, "later")])
    assert verdicts(house) == {"back0": proved, "back1": proved, "late": ("PENDING", "op_unread", False)}
    # Its half stands where another one stood: the op may mean that one.
    house.land_rows("half", [row(HALF_TOPIC, 1, 500, "again")])
    unknown = ("RESOLVED_UNKNOWN", "quarantined", False)
    assert {name: said for name, said in verdicts(house).items() if name != "late"} == {
        "back0": proved,
        "back1": unknown,
    }
    # The committed message of the other one, kept out by what landed as offset 1 before.
    house.land_rows("message", [row("T", 1, 150, "back0", sys_flag=8, prepared=100)])
    assert {name: said for name, said in verdicts(house).items() if name != "late"} == {
        "back0": unknown,
        "back1": unknown,
    }


@pytest.mark.long
@pytest.mark.parametrize("how", ["store", "files"])
@pytest.mark.parametrize("seed", range(3))
def test_of_a_broker_made_anew_under_its_old_name_nothing_is_said_that_is_not_so(open_house, tmp_path, how, seed):
    dice, house = random.Random(f"rebuilt {seed}"), open_house(*AUDIT)
    lives = [TrueBroker(name, dice, now_ms=BORN_MS + number * 3_600_000) for number, name in enumerate("ab")]
    for broker, transactions in zip(lives, (80, 160), strict=True):
        broker.live(transactions, topics=3)
        if how == "store":
            house.land_store(broker.write_store(tmp_path / broker.name), broker="x")
        for kind in KINDS if how == "files" else ():
            house.land_rows(kind.replace("_", "-"), [one.row() for one in broker.log if one.kind == kind], broker="x")
        house.audit()
    verdict_rows = [one for one in house.rows("verdict") if one["verdict"] == "ROLLED_BACK"]
    rolled_back = {(one["transaction_id"], ms(one["born_timestamp"])) for one in verdict_rows}
    # Two transactions may have one id.
    stories = {(story.key.transaction_id, story.key.born_ms): story for broker in lives for story in broker.stories}
    logs = {broker.name: broker.log for broker in lives}
    assert rolled_back
    assert not [key for key in rolled_back if stories[key].was_committed_before(logs[key[0][0]])]
    assert not [key for key in rolled_back if not stories[key].rollbacks]


def life(transactions: int, plains: int) -> SmallLog:
    """A broker's log: transactions committed one by one, each with an op of its own, then plain messages."""
    log = SmallLog()
    for number in range(transactions):
        half = log.half(f"{transactions}{number}")
        log.commit(half)
        log.op(half)
    for _ in range(plains):
        log.plain()
    for one in log.rows:  # each life at a time of its own
        one["storeTimestamp"] += transactions * 3_600_000
    return log


@pytest.mark.parametrize("how", ["store", "live"])
def test_what_was_read_of_a_former_life_proves_nothing_of_a_topic_that_is_left_out_now(open_house, tmp_path, how):
    house = open_house("role=audit")
    with live_capture("restart", tmp_path, BROKER) as served:
        for log, topics in ((life(1, 40), "*"), (life(3, 0), "Other")):
            assignments = ["role=audit", f"land.topics=['{topics}']"]
            house.settings = Settings.load(assignments=assignments, warehouse=house.warehouse.uri)
            if how == "store":
                house.land_store(log.write_store(tmp_path / f"store{len(topics)}"))
            else:
                served.broker.queues = log.queues()
                common = {"now": NOW, "wall_clock": wall_clock, "environ": {}}
                run_land_rocketmq(house.warehouse, house.settings, name_servers=[served.address], **common)
    house.audit(LATER)
    found = {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}
    assert {found["31"], found["32"]} == {"RESOLVED_UNKNOWN"}


def test_an_older_copy_of_a_store_takes_no_proof_away(open_house, tmp_path):
    log = SmallLog()
    log.plain()
    half = log.half("back")
    upto = log.plain("Other")["commitLogOffset"]
    log.op(half)
    log.plain("Other")
    house = open_house("role=audit")
    house.land_store(log.write_store(tmp_path / "store"))
    house.audit()
    assert verdict_and_reason(house) == {"back": ("ROLLED_BACK", "log_read")}
    house.land_store(log.write_store(tmp_path / "older", upto=upto))
    house.audit(LATER)
    assert verdict_and_reason(house) == {"back": ("ROLLED_BACK", "log_read")}


@pytest.mark.parametrize("topics", ["Real", "*"])
def test_an_older_copy_is_known_by_what_it_has_that_landed(open_house, tmp_path, topics):
    """It ends in records of a topic that is left out, and the last one that is taken is damaged."""
    log = SmallLog()
    log.plain()
    log.plain("Other")
    log.op(log.half("back"))
    bad = log.plain()
    for _ in range(known_logs.LOOKED_AT):
        log.plain("Other")
    upto = log.plain("Other")["commitLogOffset"]
    log.plain()
    stores = [log.write_store(tmp_path / name, upto=end) for name, end in (("store", None), ("older", upto))]
    house = open_house()
    for store, taken in zip(stores, (topics, "Real"), strict=True):
        spoil(store, bad, BODY_AT, b"x")
        assignments = ["role=audit", f"land.topics=['{taken}']"]
        house.settings = Settings.load(assignments=assignments, warehouse=house.warehouse.uri)
        assert house.land_store(store).counts["rebuilt"] == 0


@pytest.mark.parametrize("plains", [0, pytest.param(9, marks=pytest.mark.long)])
def test_a_log_that_was_cut_back_and_goes_on_otherwise_is_another_one(open_house, tmp_path, plains):
    before, now = SmallLog(), SmallLog()
    halves = [log.half("back") for log in (before, now)]
    upto = before.op(halves[0])["commitLogOffset"]
    for _ in range(4):
        before.plain("Other")
    now.commit(halves[1])
    for _ in range(plains):
        now.plain()
    for one in now.rows[1:]:  # written after the crash
        one["storeTimestamp"] += 3_600_000
    house = open_house("role=audit")
    stores = before.write_store(tmp_path / "before"), before.write_store(tmp_path / "cut", upto=upto)
    counts = [house.land_store(store).counts["rebuilt"] for store in (*stores, now.write_store(tmp_path / "now"))]
    house.audit(LATER)
    assert counts == [0, 0, 1]
    assert verdict_and_reason(house)["back"][0] == "COMMITTED"


def test_a_copy_of_a_store_that_keeps_more_is_read_from_its_first_record_on(open_house, tmp_path):
    log = SmallLog()
    log.plain()
    half = log.half("back")
    while log.plain()["commitLogOffset"] < FILE_BYTES:
        pass
    log.op(half)
    log.plain()
    house, whole = (open_house("role=audit", name=name) for name in ("house", "whole"))
    house.land_store(log.write_store(tmp_path / "kept", without=[0]))
    house.land_store(log.write_store(tmp_path / "archive"))
    whole.land_store(tmp_path / "archive")
    for each in (house, whole):
        each.audit(LATER)
    assert verdict_and_reason(house) == verdict_and_reason(whole) == {"back": ("ROLLED_BACK", "read_past_op")}


def test_a_sound_copy_of_a_damaged_store_is_read_from_the_damage_on(open_house, tmp_path):
    log = SmallLog()
    back, seen = log.half("back"), log.half("seen")
    message = log.commit(seen)
    log.op(seen)
    log.op(back)
    house = open_house("role=audit")
    damaged, sound = (log.write_store(tmp_path / name) for name in ("damaged", "sound"))
    spoil(damaged, message, BODY_AT, b"x")
    for _ in range(2):
        house.land_store(damaged)
    house.audit()
    assert set(verdict_and_reason(house).values()) == {("RESOLVED_UNKNOWN", "quarantined")}
    starts = []
    for _ in range(2):
        plan = store_plan.plan(house.warehouse, house.settings, path=str(sound), broker_name=BROKER)
        starts.append(plan["from_offset"])
        house.land_store(sound)
    house.audit(LATER)
    assert starts == [message["commitLogOffset"], plan["to_offset"]]
    assert verdict_and_reason(house) == {"back": ("ROLLED_BACK", "log_read"), "seen": ("COMMITTED", "visible")}


def test_of_two_damaged_records_the_one_that_was_read_whole_is_read_once(open_house, tmp_path):
    log = SmallLog()
    first, second = (log.commit(log.half(name)) for name in ("first", "second"))
    log.plain()
    house = open_house("role=audit")
    damaged, better = (log.write_store(tmp_path / name) for name in ("damaged", "better"))
    spoil(damaged, first, BODY_AT, b"x")
    for copy in (damaged, better):
        spoil(copy, second, BODY_AT, b"x")
    house.land_store(damaged)
    starts = []
    for _ in range(2):
        plan = store_plan.plan(house.warehouse, house.settings, path=str(better), broker_name=BROKER)
        starts.append(plan["from_offset"])
        house.land_store(better)
    assert starts == [first["commitLogOffset"], plan["to_offset"]]


def test_a_new_life_that_ends_before_all_that_was_read_of_the_former_one_is_no_older_copy(open_house, tmp_path):
    before, now = SmallLog(), life(1, 0)
    before.plain()
    before.half("gone")
    while before.plain("Other")["commitLogOffset"] < FILE_BYTES:
        pass
    for _ in range(3):
        before.plain()
    house = open_house("role=audit")
    house.land_store(before.write_store(tmp_path / "kept", without=[0]))
    assert house.land_store(now.write_store(tmp_path / "now")).counts["rebuilt"] == 1


def test_what_was_damaged_in_a_former_life_is_not_read_by_reading_this_one(open_house, tmp_path):
    before, now = SmallLog(), life(0, 12)
    seen = before.half("seen")
    message = before.commit(seen)
    before.op(seen)
    for _ in range(3):
        before.plain("Other")
    damaged = before.write_store(tmp_path / "damaged")
    spoil(damaged, message, BODY_AT, b"x")
    for one in now.rows:
        one["storeTimestamp"] += 3_600_000
    house = open_house("role=audit")
    house.land_store(damaged)
    assert house.land_store(now.write_store(tmp_path / "now")).counts["rebuilt"] == 1
    house.audit(LATER)
    assert verdict_and_reason(house) == {"seen": ("RESOLVED_UNKNOWN", "quarantined")}


def test_an_op_of_a_former_life_whose_half_never_landed_decides_none_of_this_one(open_house, tmp_path):
    before, now = SmallLog(), SmallLog()
    gone = [before.half(f"gone{number}") for number in range(3)]
    while before.plain("Other")["commitLogOffset"] < FILE_BYTES:
        pass
    for half in gone:
        before.op(half)
    now.plain()
    # At the offsets of those halves, which retention took: one that nobody has decided, one committed, one twice so.
    now.half("open")
    seen, twice, *others = [now.half(name) for name in ("seen", "twice", "other0", "other1", "other2")]
    now.commit(seen)
    now.commit(twice)
    for half in (*others, seen, twice, twice):  # the others have the keys of ops of the former life
        now.op(half)
    for _ in range(20):
        now.plain()
    for one in now.rows:
        one["storeTimestamp"] += 3_600_000
    house = open_house("role=audit")
    house.land_store(before.write_store(tmp_path / "before", without=[0]))
    assert house.land_store(now.write_store(tmp_path / "now")).counts["rebuilt"] == 1
    house.audit(LATER)
    found = verdict_and_reason(house)
    assert (found["open"], found["seen"]) == (("RESOLVED_UNKNOWN", "untold"), ("COMMITTED", "visible"))
    assert found["twice"] == ("CONFLICT", "two_ops")


def test_two_ops_behind_the_place_where_a_log_was_cut_back_are_a_conflict(open_house, tmp_path):
    before, now = SmallLog(), SmallLog()
    half = [log.half("twice") for log in (before, now)][1]
    for _ in range(4):
        before.plain("Other")
    now.commit(half)
    now.op(half)
    now.op(half)
    for one in now.rows[1:]:  # written after the crash
        one["storeTimestamp"] += 3_600_000
    house = open_house("role=audit")
    house.land_store(before.write_store(tmp_path / "before"))
    assert house.land_store(now.write_store(tmp_path / "now")).counts["rebuilt"] == 1
    house.audit(LATER)
    assert verdict_and_reason(house)["twice"] == ("CONFLICT", "two_ops")


def verdict_and_reason(house: House) -> dict[str, tuple[str, str]]:
    return {row["transaction_id"]: (row["verdict"], row["reason"]) for row in house.rows("verdict")}
