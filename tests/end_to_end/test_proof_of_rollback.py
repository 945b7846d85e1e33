"""A rollback is told only where its proof has landed: whatever is missing, in whatever order the rest lands."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from histories import HALF_TOPIC
from house import BROKER, House, said_of_brokers, wall_clock
from live_capture import LiveCapture, live_capture
from moment import NOW
from remoting_server import answer
from small_log import FILE_BYTES, Row, SmallLog, encoded, spoil

from txmq_lib.config.settings import Settings
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.land.job import run_land_rocketmq

AUDIT = "role=audit"
LATER = NOW + timedelta(minutes=1)
# Where the fields of a stored record lie (F2), both hosts IPv4.
QUEUE_ID, QUEUE_OFFSET, PLACE, SYS_FLAG, PREPARED, BODY = 12, 20, 28, 36, 76, 88


def said(house: House) -> dict[str, tuple[str, str]]:
    return {row["transaction_id"]: (row["verdict"], row["reason"]) for row in house.rows("verdict")}


def story(*, tail: bool = False) -> SmallLog:
    """Two rolled back transactions around a committed one, over two queues; without `tail` both queues go on."""
    log = SmallLog()
    log.plain()
    log.plain(queue_id=1)
    first, second, third = log.half("back0"), log.half("done", queue_id=1), log.half("back1")
    log.plain()
    log.commit(second)
    log.op(first, second)
    log.op(third)
    if not tail:
        log.plain()
        log.plain(queue_id=1)
    return log


def land_files(house: House, log: SmallLog, keeps: Callable[[Row], bool] = lambda row: True, **more: bool) -> None:
    for kind in ("half", "op", "message"):
        house.land_rows(kind, [row for row in log.of(kind, **more) if keeps(row)])


ALL = {"back0": "ROLLED_BACK", "done": "COMMITTED", "back1": "ROLLED_BACK"}


def with_reason(reason: str) -> dict[str, tuple[str, str]]:
    return {name: (verdict, reason if verdict == "ROLLED_BACK" else "visible") for name, verdict in ALL.items()}


def unknown(reason: str) -> dict[str, tuple[str, str]]:
    return {name: ("RESOLVED_UNKNOWN", reason) if verdict == "ROLLED_BACK" else (verdict, "visible")
            for name, verdict in ALL.items()}  # fmt: skip


def test_files_prove_a_rollback_by_a_later_message_or_by_the_end_they_tell(open_house):
    past, end, silent = (open_house(AUDIT, name=name) for name in ("past", "end", "silent"))
    log = story(tail=True)
    log.plain("Other")
    land_files(past, story(), tells_end=False)
    land_files(end, log)
    land_files(silent, log, tells_end=False)
    for house in (past, end, silent):
        house.audit()
    assert said(past) == with_reason("read_past_op")
    assert said(end) == with_reason("file_end")
    assert {row["is_settled"] for row in end.rows("verdict") if row["reason"] == "file_end"} == {False}
    assert said(silent) == unknown("unread")
    # The queue went on behind the end that a file told: what lies between may have been before the op.
    log.plain()
    log.plain()
    end.land_rows("message", log.of("message")[-1:])
    end.audit(LATER)
    assert said(end) == unknown("gap")


@pytest.mark.long
def test_the_end_that_a_file_told_proves_nothing_of_what_was_written_later(open_house):
    house = open_house(AUDIT)
    log = story(tail=True)
    late = log.half("late")
    log.plain("Other")
    land_files(house, log)
    log.commit(late)
    log.op(late)
    log.plain("Other")
    # A second export of all; of its messages the file of one topic is lost.
    land_files(house, log, lambda row: row["topic"] != "Real")
    house.audit()
    assert said(house)["late"] == ("RESOLVED_UNKNOWN", "unread")
    # Where messages were read before the ops were written there is none behind them.
    earlier = open_house(AUDIT, name="earlier")
    log = story(tail=True)
    late = log.half("late")
    messages = log.of("message")
    log.commit(late)
    log.op(late)
    for kind, rows in (("message", messages), ("half", log.of("half")), ("op", log.of("op"))):
        earlier.land_rows(kind, rows)
    earlier.audit()
    assert said(earlier)["late"] == ("RESOLVED_UNKNOWN", "unread")


def is_of_queue(row: Row, *offsets: int) -> bool:
    return (row["topic"], row["queueId"]) == ("Real", 0) and row["queueOffset"] in offsets


@pytest.mark.parametrize(
    ("offsets", "tail", "expected"),
    [((1,), False, "gap"), ((2,), False, "unread"), ((1,), True, "unread"), ((0, 1), False, "gap")],
    ids=["in the middle", "its end", "its end before the op", "its beginning"],
)
def test_files_with_a_queue_cut_short_prove_nothing_of_it(open_house, offsets, tail, expected):
    house = open_house(AUDIT)
    land_files(house, story(tail=tail), lambda row: not is_of_queue(row, *offsets))
    house.audit()
    assert said(house) == unknown(expected)


def test_a_topic_of_which_nothing_landed_proves_nothing(open_house):
    house = open_house(AUDIT)
    log = story()
    log.plain("Other")
    land_files(house, log, lambda row: row["topic"] != "Real")
    house.audit()
    assert {reason for verdict, reason in said(house).values() if verdict == "RESOLVED_UNKNOWN"} == {"left_out"}


@pytest.mark.parametrize("tail", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_store_read_whole_proves_it_without_consume_queues(open_house, tmp_path, tail):
    house = open_house(AUDIT)
    house.land_store(story(tail=tail).write_store(tmp_path / "store"))
    house.audit()
    assert said(house) == with_reason("log_read" if tail else "read_past_op")


def test_the_proof_that_is_named_is_that_of_all_that_landed_and_not_the_first(open_house, tmp_path):
    house, log = open_house(AUDIT), story(tail=True)
    house.land_store(log.write_store(tmp_path / "store"))
    house.audit()
    assert said(house) == with_reason("log_read")
    log.plain()
    log.plain(queue_id=1)
    house.land_store(log.write_store(tmp_path / "store"))
    house.audit(LATER)
    assert said(house) == with_reason("read_past_op")
    assert {row["is_settled"] for row in house.rows("verdict")} == {True}


def test_a_topic_left_out_of_a_store_is_told_so(open_house, tmp_path):
    house = open_house(AUDIT, "land.topics=['Other*']")
    log = story()
    log.plain("Other1")
    house.land_store(log.write_store(tmp_path / "store"))
    house.audit()
    assert {reason for verdict, reason in said(house).values() if verdict == "RESOLVED_UNKNOWN"} == {"left_out"}
    assert "ROLLED_BACK" not in {verdict for verdict, _ in said(house).values()}


def test_a_file_that_retention_removed_before_it_was_read_may_have_held_the_message(open_house, tmp_path):
    log = SmallLog()
    log.plain()
    half = log.half("lost")
    upto = log.plain()["commitLogOffset"]
    while log.plain()["commitLogOffset"] < 2 * FILE_BYTES:
        pass
    log.op(half)
    log.plain()
    house = open_house(AUDIT)
    house.land_store(log.write_store(tmp_path / "store", upto=upto))
    house.audit()
    house.land_store(log.write_store(tmp_path / "store", without=(0, 1)))
    house.audit(LATER)
    assert said(house) == {"lost": ("RESOLVED_UNKNOWN", "lost")}


FLIPS = {  # of the committed message: where, what, and the verdict of its transaction
    "body": (BODY, b"x", ("RESOLVED_UNKNOWN", "quarantined")),
    "topic": (BODY + 5, b"Rfal", ("RESOLVED_UNKNOWN", "elsewhere")),
    "queue id": (QUEUE_ID, struct.pack(">i", 5), ("COMMITTED", "visible")),
    "no such queue id": (QUEUE_ID, struct.pack(">i", -5), ("RESOLVED_UNKNOWN", "quarantined")),
    "commit bits": (SYS_FLAG, struct.pack(">i", 0), ("RESOLVED_UNKNOWN", "elsewhere")),
    "rollback bits": (SYS_FLAG, struct.pack(">i", 12), ("RESOLVED_UNKNOWN", "gap")),
    "prepared offset": (PREPARED, struct.pack(">q", 4711), ("RESOLVED_UNKNOWN", "elsewhere")),
    "queue offset": (QUEUE_OFFSET, struct.pack(">q", 4711), ("COMMITTED", "visible")),
    "queue offset of another": (QUEUE_OFFSET, struct.pack(">q", 0), ("RESOLVED_UNKNOWN", "quarantined")),
    "transaction id": (None, b"dona", ("RESOLVED_UNKNOWN", "elsewhere")),
    "magic": (4, b"\0", ("RESOLVED_UNKNOWN", "quarantined")),
}


@pytest.mark.long
def test_a_byte_spoilt_in_a_committed_message_makes_no_rollback_of_it(open_house, tmp_path):
    house = open_house(AUDIT)
    expected = {}
    for what, (at, new, verdict) in FLIPS.items():
        log = story()
        (message,) = [row for row in log.rows if row["sysFlag"] == 8]
        store = log.write_store(tmp_path / what.replace(" ", "-"))
        spoil(store, message, encoded(message).index(b"done") if at is None else at, new)
        house.land_store(store, broker=what)
        expected[what] = verdict
    house.audit()
    found = {row["broker_name"]: (row["verdict"], row["reason"]) for row in house.rows("verdict")
             if row["transaction_id"] == "done"}  # fmt: skip
    assert found == expected
    bad = {row["broker_name"]: row for row in house.rows("quarantine")}
    body = bad["body"]
    assert (body["topic"], body["queue_id"], body["queue_offset"], body["transaction_id"]) == ("Real", 1, 1, "done")
    assert body["commit_log_offset"] == message["commitLogOffset"]
    assert (bad["magic"]["topic"], bad["magic"]["commit_log_offset"]) == (None, message["commitLogOffset"])


def test_a_log_without_consume_queues_proves_nothing_where_topics_are_left_out(open_house, tmp_path):
    log = story(tail=True)
    (message,) = [row for row in log.rows if row["sysFlag"] == 8]
    house = open_house(AUDIT, "land.topics=['Real']")
    upto = log.plain(queue_id=1)["commitLogOffset"]
    log.plain(queue_id=1)
    for end in (upto, None):
        store = log.write_store(tmp_path / "store", upto=end)
        spoil(store, message, BODY + 5, b"Rfal")  # a topic that is not taken
        house.land_store(store)
        house.audit(NOW if end else LATER)
        # At first nothing shows that a message of the queue is missing; a later one does.
        missing = {"back0": "unread", "done": "unread" if end else "gap", "back1": "unread"}
        assert said(house) == {name: ("RESOLVED_UNKNOWN", reason) for name, reason in missing.items()}


def test_consume_queues_behind_their_log_prove_nothing_of_the_rest_where_topics_are_left_out(open_house, tmp_path):
    log = story(tail=True)
    (message,) = [row for row in log.rows if row["sysFlag"] == 8]
    house = open_house(AUDIT, "land.topics=['Real']")
    store = log.write_store(tmp_path / "store")
    spoil(store, message, BODY + 5, b"Rfal")  # a topic that is not taken
    log.write_consume_queues(store, upto=message["commitLogOffset"])
    house.land_store(store)
    house.audit()
    assert said(house) == dict.fromkeys(ALL, ("RESOLVED_UNKNOWN", "unread"))
    log.write_consume_queues(store)
    house.land_store(store)
    house.audit(LATER)
    proved = ("ROLLED_BACK", "log_read")
    assert said(house) == {"back0": proved, "done": ("RESOLVED_UNKNOWN", "gap"), "back1": proved}


def test_the_message_of_the_first_half_of_a_log_may_have_another_id(open_house, tmp_path):
    # Place 0 is also what messages of no transaction name.
    log = SmallLog()
    half = log.half("done")
    assert half["commitLogOffset"] == 0
    log.plain()
    message = log.commit(half)
    log.op(half)
    log.plain()
    store = log.write_store(tmp_path / "store")
    spoil(store, message, encoded(message).index(b"done"), b"dona")
    house = open_house(AUDIT)
    house.land_store(store)
    house.audit()
    assert said(house) == {"done": ("RESOLVED_UNKNOWN", "elsewhere")}


def test_what_the_engine_restored_to_the_topic_of_a_copy_is_no_rollback(open_house):
    log = SmallLog()
    half = log.half("done")
    copy = log.append(HALF_TOPIC, {**half["properties"], "TRANSACTION_CHECK_TIMES": "1", "REAL_TOPIC": "Rfal"})
    house = open_house()
    house.land_rows("half", log.of("half"))
    end = {"ts": copy["bornTimestamp"] + 1000, "producerGroup": "G", "tranStateTableOffset": copy["queueOffset"]}
    house.land_rows("end", [{**end, "commitLogOffset": copy["commitLogOffset"], "commitOrRollback": 8}])
    house.reconcile()
    assert [(row["topic"], row["transaction_id"]) for row in house.rows("message")] == [("Rfal", "done")]
    house.audit()
    assert said(house) == {"done": ("RESOLVED_UNKNOWN", "elsewhere")}


@pytest.mark.long
def test_a_newest_place_that_was_misread_proves_nothing_once_more_lands(open_house):
    log = SmallLog()
    log.plain()
    half, newest = log.half("done"), log.plain()
    log.commit(half)
    log.op(half)
    more = [log.plain(), log.plain()]
    house = open_house(AUDIT)

    def land(broker: str) -> None:
        for kind in ("half", "op"):
            house.land_rows(kind, log.of(kind, tells_end=False), broker=broker)
        house.land_rows("message", [log.rows[0], {**newest, "commitLogOffset": 1 << 20}], broker=broker)

    land("audited-between")
    house.audit()
    assert said(house) == {"done": ("ROLLED_BACK", "read_past_op")}
    land("at-once")
    for broker in ("audited-between", "at-once"):
        house.land_rows("message", more, broker=broker)
    house.audit(LATER)
    assert said_of_brokers(house) == dict.fromkeys(
        (("audited-between", "done"), ("at-once", "done")), ("RESOLVED_UNKNOWN", "unread")
    )


@pytest.mark.long
def test_any_number_of_records_may_have_been_in_torn_bytes(open_house, tmp_path):
    log = SmallLog()
    before = [log.plain() for _ in range(3)]
    half = log.half("done")
    log.commit(half)
    behind = log.plain()
    log.plain()
    log.op(half)
    log.plain()
    torn_from = {"with-the-half": half, "before-it": before[-1], "with-the-log": before[0]}
    house = open_house(AUDIT)
    for broker, first in torn_from.items():
        store = log.write_store(tmp_path / broker)
        spoil(store, first, 0, bytes(behind["commitLogOffset"] - first["commitLogOffset"]))
        house.land_store(store, broker=broker)
        for kind in ("half", "op"):
            house.land_rows(kind, log.of(kind, tells_end=False), broker=broker)
    house.audit()
    done = [(broker, "done") for broker in torn_from]
    assert said_of_brokers(house) == dict.fromkeys(done, ("RESOLVED_UNKNOWN", "gap"))
    for broker in torn_from:
        again = house.land_store(tmp_path / broker, broker=broker, is_idle_when_landed=True)
        assert again.counts == {"idle": 1}
    # A sound copy has what was torn.
    sound = log.write_store(tmp_path / "sound")
    for broker in torn_from:
        house.land_store(sound, broker=broker)
    house.audit(LATER)
    assert said_of_brokers(house) == dict.fromkeys(done, ("COMMITTED", "visible"))


ORDERS = (
    pytest.param(("store", "files"), id="all at once"),
    pytest.param(("files", "audit", "store"), id="files first", marks=pytest.mark.long),
    pytest.param(("store", "audit", "files"), id="the store first", marks=pytest.mark.long),
)


@pytest.mark.parametrize("order", ORDERS)
def test_files_and_an_older_store_say_the_same_in_any_order(open_house, tmp_path, order):
    log = story(tail=True)
    ops = [row for row in log.rows if row["topic"].endswith("OP_HALF_TOPIC")]
    # The store is of a moment before the ops, and the files have no real topic.
    lands = {
        "store": lambda house: house.land_store(log.write_store(tmp_path / "store", upto=ops[0]["commitLogOffset"])),
        "files": lambda house: [house.land_rows(kind, log.of(kind)) for kind in ("half", "op")],
        "audit": lambda house: house.audit(),
    }
    house = open_house(AUDIT)
    for step in order:
        lands[step](house)
    house.audit(LATER)
    assert said(house) == unknown("unread")


@pytest.mark.parametrize("audited", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_gap_behind_an_op_that_was_read_takes_no_proof_away(open_house, audited):
    house = open_house(AUDIT)
    log = story()
    land_files(house, log, tells_end=False)
    if audited:
        house.audit()
    for _ in range(3):
        log.plain()
    house.land_rows("message", log.of("message", tells_end=False)[-1:])
    house.land_rows("half", [log.half("new")])
    house.audit(LATER)
    assert {name: found for name, found in said(house).items() if name in ALL} == with_reason("read_past_op")


@pytest.mark.parametrize("audited", [True, pytest.param(False, marks=pytest.mark.long)])
def test_files_of_a_log_that_were_removed_behind_an_op_that_was_read_take_no_proof_away(open_house, tmp_path, audited):
    log = story()
    upto = log.plain()["commitLogOffset"]
    while log.plain()["commitLogOffset"] < 2 * FILE_BYTES:
        pass
    house, of_files = open_house(AUDIT), open_house(AUDIT, name="files")
    house.land_store(log.write_store(tmp_path / "store", upto=upto))
    land_files(of_files, log, lambda row: row["commitLogOffset"] < upto, tells_end=False)
    without = log.write_store(tmp_path / "store", without=(0, 1))
    for each in (house, of_files):
        if audited:
            each.audit()
        each.land_store(without)
        each.audit(LATER)
        assert said(each) == with_reason("read_past_op")


@pytest.fixture
def served(tmp_path: Path):
    with live_capture("restart", tmp_path, BROKER) as capture:
        yield capture


def land_live(house: House, served: LiveCapture, log: SmallLog) -> PassReport:
    served.broker.queues = log.queues()
    return run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[served.address], now=NOW, wall_clock=wall_clock, environ={}
    )


def test_a_live_broker_proves_it_by_the_end_of_the_queue_as_its_ops_were_read(open_house, served):
    house = open_house(AUDIT)
    log = story(tail=True)
    land_live(house, served, log)
    house.audit()
    assert said(house) == with_reason("live_read")
    # Messages that retention took before they were read: what was proved before stays so.
    served.broker.lowest["Real", 0] = 4
    for _ in range(3):
        log.plain()
    log.half("new")
    land_live(house, served, log)
    house.audit(LATER)
    assert {name: found for name, found in said(house).items() if name in ALL} == with_reason("live_read")


def test_what_a_live_broker_lost_may_have_been_the_message(open_house, served):
    house = open_house(AUDIT)
    served.broker.lowest["Real", 0] = 2
    land_live(house, served, story())
    house.audit()
    assert said(house) == unknown("lost")


def test_a_bad_record_of_a_live_queue_may_have_been_the_message(open_house, served):
    house = open_house(AUDIT)
    log = story()
    queues = log.queues()
    queues["Real", 0][1] = queues["Real", 0][1].replace(b"body", b"bodi")
    log.queues = lambda: queues
    land_live(house, served, log)
    house.audit()
    assert said(house) == unknown("quarantined")


@pytest.mark.parametrize("is_known_by", ["the end of the log", "its queue"])
def test_a_place_misread_in_a_half_tells_not_how_far_all_queues_were_read(open_house, served, is_known_by):
    behind = int(is_known_by == "its queue")
    if behind:  # nobody tells where the log ends
        served.interrupt = lambda request: answer(request, 1) if request["code"] == 28 else None
    house, log = open_house(AUDIT), SmallLog()
    log.plain()
    seen = log.half("seen")
    odd = log.half("odd")
    others = [log.half("other") for _ in range(behind)]
    served.broker.log_end = log.plain("Other")["commitLogOffset"]
    queues = log.queues()
    record = bytearray(queues[HALF_TOPIC, 0][1])
    struct.pack_into(">q", record, PLACE, odd["commitLogOffset"] + (1 << 20))
    queues[HALF_TOPIC, 0][1] = bytes(record)
    served.broker.queues = queues
    common = {"name_servers": [served.address], "wall_clock": wall_clock, "environ": {}, "now": NOW}
    run_land_rocketmq(house.warehouse, house.settings, **common)
    # Committed, and Real is not read any more.
    log.commit(seen)
    log.op(seen, *others)
    queues |= {queue: records for queue, records in log.queues().items() if queue[0] != HALF_TOPIC}
    served.broker.log_end = log.plain("Other")["commitLogOffset"]
    without = Settings.load(assignments=[AUDIT, "land.topics=['Other']"], warehouse=house.warehouse.uri)
    run_land_rocketmq(house.warehouse, without, **common)
    house.audit()
    assert said(house)["seen"] == ("RESOLVED_UNKNOWN", "unread")


@pytest.mark.parametrize("is_op", [True, False])
def test_an_op_that_seems_to_lie_before_its_half_was_misread_or_its_half_was(open_house, is_op):
    log = SmallLog()
    log.plain()
    before = log.plain()
    half = log.half("seen")
    log.commit(half)
    op = log.op(half)
    wrong, place = (op, 5) if is_op else (half, 1 << 20)
    house = open_house(AUDIT)
    for kind in ("half", "op"):
        rows = log.of(kind, tells_end=False)
        house.land_rows(kind, [{**row, "commitLogOffset": place} if row is wrong else row for row in rows])
    queue = [row for row in log.of("message", tells_end=False) if row["queueOffset"] <= before["queueOffset"]]
    house.land_rows("message", queue)
    house.audit()
    assert said(house)["seen"][0] == "RESOLVED_UNKNOWN"


def test_a_topic_left_out_of_a_live_landing_is_told_so(open_house, served):
    house = open_house(AUDIT, "land.topics=['Other*']")
    land_live(house, served, story())
    house.audit()
    assert {reason for verdict, reason in said(house).values() if verdict == "RESOLVED_UNKNOWN"} == {"left_out"}


def hidden(commits: int) -> tuple[SmallLog, Row]:
    """A committed message in queue 1 of `Gone`, so often; and the half of one that is not decided."""
    log = SmallLog()
    log.plain()
    halves = [log.half(f"seen{number}", "Gone", 1) for number in range(commits)]
    waiting = log.half("waiting", "Gone", 1)
    for half in halves:
        log.commit(half)
    log.op(*halves)
    return log, waiting


def test_an_empty_queue_that_nothing_tells_of_is_read_by_the_next_live_landing(open_house, served):
    """A version of before wrote no row of it; nor did a landing of halves that came otherwise."""
    house = open_house(AUDIT)
    log = SmallLog()
    log.plain()
    log.op(log.half("back", "Empty", 0))
    served.read_queues["Empty"] = 1
    land_live(house, served, log)
    frontier = house.warehouse.path("landing_frontier")
    house.warehouse.spark.sql(f"delete from delta.`{frontier}` where topic = 'Empty'")
    land_live(house, served, log)
    house.audit()
    assert said(house) == {"back": ("ROLLED_BACK", "from_beginning")}
    before = house.versions()
    land_live(house, served, log)
    assert house.versions() == before, "it is told once"


@pytest.mark.parametrize(
    "read_queues", [0, pytest.param(1, marks=pytest.mark.long)], ids=["deleted", "beyond readQueueNums"]
)
@pytest.mark.parametrize(
    "seen",
    [pytest.param(0, marks=pytest.mark.long), 1, pytest.param(2, marks=pytest.mark.long)],
    ids=["never told of", "told of, empty", "told of, with messages"],
)
def test_a_queue_of_which_a_live_broker_tells_no_more_proves_nothing(open_house, served, seen, read_queues):
    """Both are done to live topics: what was committed then is visible to nobody who may read, and not rolled back."""
    house = open_house(AUDIT)
    log, waiting = hidden(max(seen - 1, 0))
    served.read_queues["Gone"] = 2
    if seen:
        land_live(house, served, log)
        house.audit()
        assert said(house)["waiting"] == ("PENDING", "undecided")
    log.commit(waiting)
    log.op(waiting)
    served.read_queues["Gone"] = read_queues
    findings = " ".join(land_live(house, served, log).findings)
    assert "told of no more (deleted, or beyond readQueueNums)" in findings
    assert "Gone queue 1" in findings
    house.audit(LATER)
    assert said(house) == {"waiting": ("RESOLVED_UNKNOWN", "untold"),
                           **{f"seen{number}": ("COMMITTED", "visible") for number in range(seen - 1)}}  # fmt: skip
    before = house.versions()
    assert "told of no more" not in " ".join(land_live(house, served, log).findings)
    assert house.versions() == before, "it is told once"
    served.read_queues["Gone"] = 2  # raised again: what was hidden is read
    land_live(house, served, log)
    house.audit(LATER)
    assert {verdict for verdict, _ in said(house).values()} == {"COMMITTED"}


def test_a_queue_that_was_told_of_and_empty_proves_a_rollback(open_house, served):
    house = open_house(AUDIT)
    log = SmallLog()
    log.plain()
    back = log.half("back", "Gone", 1)
    served.read_queues["Gone"] = 2
    land_live(house, served, log)
    log.op(back)
    log.plain()
    land_live(house, served, log)
    house.audit()
    assert said(house) == {"back": ("ROLLED_BACK", "from_beginning")}


def test_a_landed_file_of_high_offsets_hides_nothing_from_a_live_landing(open_house, served):
    house = open_house(AUDIT)
    log = story()
    house.land_rows("message", log.of("message")[-1:])
    land_live(house, served, log)
    landed = {(row["queue_id"], row["queue_offset"]) for row in house.rows("message")}
    assert landed == {(row["queueId"], row["queueOffset"]) for row in log.of("message")}
