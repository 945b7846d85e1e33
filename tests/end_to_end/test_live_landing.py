"""`land rocketmq` against a capture served as a live broker: whole, bounded, interrupted, refused, moved, cut short."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import truth
from house import BROKER, House, wall_clock
from live_capture import LiveCapture, live_capture
from moment import NOW
from record_encoder import STORE_MS, encode_record
from remoting_server import answer
from test_audit_of_captures import expected, judged
from views.conftest import append

from txmq_lib.config.settings import Settings
from txmq_lib.errors import UnreachableError
from txmq_lib.names import HALF_TOPIC, OP_TOPIC
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.cycle import run_cycle, run_sources
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.land.live import broker_said, queue_landing, queue_pulling
from txmq_lib.pipeline.land.live.broker_reading import WHOLE, Parts
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.rules.frontier import WHOLE_QUEUE_ID
from txmq_lib.views.cursors import passed_over, stopped_checks
from txmq_lib.views.reader import WarehouseReader

CAPTURE, GIVEN_UP_TOPIC = "restart", "TRANS_CHECK_MAX_TIME_TOPIC"
QUICK = ("role=audit", "rocketmq.timeout=1s")


def _with(place: int, bytes_there: bytes) -> Callable[[bytes], bytes]:
    return lambda record: record[:place] + bytes_there + record[place + len(bytes_there) :]


# How a stored record (F2) cannot be used, and what it is quarantined as.
BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "born in another unit": (_with(40, struct.pack(">q", 2**61)), "TIMESTAMP_OUT_OF_RANGE"),
    "stored at no time": (_with(56, struct.pack(">q", 2**61)), "TIMESTAMP_OUT_OF_RANGE"),
    "another CRC": (_with(8, struct.pack(">i", 4711)), "BODY_CRC"),
    "a topic that is no text": (lambda record: record.replace(b"TopicA", b"\xffopicA"), "RECORD_TORN"),
    "another queue": (_with(12, struct.pack(">i", 4711)), "RECORD_TORN"),
    "no magic": (_with(4, bytes(4)), "RECORD_TORN"),
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveCapture]:
    with live_capture(CAPTURE, tmp_path, BROKER) as capture:
        yield capture


def land(house: House, served: LiveCapture, parts: Parts = WHOLE, now: datetime = NOW) -> PassReport:
    return run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[served.address], parts=parts, now=now, wall_clock=wall_clock,
        environ={},
    )  # fmt: skip


def test_a_live_broker_lands_as_its_store_tells_and_once_only(open_house, served):
    house = open_house(*QUICK)
    first = land(house, served)
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)
    for table, name in (("half_message", "half"), ("trans_check_max_time", "max_time")):
        places = {(row["queue_offset"], row["commit_log_offset"], row["offset_msg_id"]) for row in house.rows(table)}
        captured = truth.rows(CAPTURE, name)
        assert places == {(row["queueOffset"], row["commitLogOffset"], row["offsetMsgId"]) for row in captured}, table
    assert (first.counts["brokers"], first.counts["unread"], first.counts["behind"]) == (1, 0, 0)
    before, passes = house.versions(), len(house.rows("pass"))
    again = land(house, served)
    assert house.versions() == before
    assert (again.counts["idle"], again.counts["unread"], len(house.rows("pass"))) == (1, 0, passes)
    assert again.findings == first.findings
    frontier = {(row["topic"], row["queue_id"]): row for row in house.rows("landing_frontier")}
    halves = truth.rows(CAPTURE, "half")
    assert frontier[HALF_TOPIC, 0]["next_offset"] == len(halves)
    last = max(halves, key=lambda row: row["queueOffset"])
    assert frontier[HALF_TOPIC, 0]["source_identity"] == (
        f"{last['queueOffset']}:{last['commitLogOffset']}:{last['storeTimestamp']}"
    )
    assert frontier["**", -1]["is_end_known"]
    offsets = {
        (row["topic"], row["consumer_group"]): row["next_offset"] for row in house.rows("consumer_offset_commit")
    }
    assert offsets[HALF_TOPIC, "CID_RMQ_SYS_TRANS"] > 0
    assert any("transactionTimeOut is 2s" in words for words in first.findings)


LANDED = ("half_message", "op_message", "message", "trans_check_max_time", "quarantine", "landing_frontier")


def test_tasks_of_few_messages_and_spark_land_the_same_rows(open_house, served, monkeypatch):
    for number, (spoil, _) in enumerate(BAD.values()):
        stored = [encode_record(10**9 + 1000 * number + at, queue_id=number, queue_offset=at) for at in range(3)]
        served.broker.queues["TopicA", number + 9] = [stored[0], spoil(stored[1]), stored[2]]
    by_spark, by_tasks = open_house(*QUICK, name="spark"), open_house(*QUICK, name="tasks")
    with monkeypatch.context() as only_spark:
        only_spark.setattr(files_of_tasks, "can_write", lambda warehouse: False)
        counts = +Counter(land(by_spark, served, Parts.QUEUES).counts)
    monkeypatch.setattr(queue_pulling, "MESSAGES_PER_TASK", 100)
    monkeypatch.setattr(files_of_tasks, "TASKS_PER_CORE", 100)
    monkeypatch.setattr(queue_landing, "_land_by_spark", forbidden)
    assert +Counter(land(by_tasks, served, Parts.QUEUES).counts) == counts
    for table in LANDED:
        assert sorted(map(repr, by_tasks.rows(table))) == sorted(map(repr, by_spark.rows(table))), table
    assert len(by_tasks.rows("half_message")) > 100


def forbidden(*_: object) -> None:
    raise AssertionError("tasks were to land it all")


def test_offsets_of_a_live_broker_land_alone_and_only_when_one_has_moved(open_house, served):
    house = open_house(*QUICK)
    assert land(house, served, Parts.OFFSETS).counts["broker_offsets"] > 0
    assert not house.rows("half_message")
    assert not house.rows("landing_frontier")
    served.offsets = changed(served.offsets, rb'"counter":0', b'"counter":4711')  # moves though no offset does
    passes = len(house.rows("pass"))
    assert land(house, served, Parts.OFFSETS).counts["idle"] == 1
    land(house, served, Parts.QUEUES)
    assert land(house, served, Parts.OFFSETS).counts["idle"] == 1, "what others land is not forgotten"
    served.offsets = changed(served.offsets, rb"(@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>999")
    assert land(house, served, Parts.QUEUES).counts["idle"] == 1
    assert land(house, served, Parts.OFFSETS).counts["broker_offsets"] == 1
    assert len(house.rows("pass")) == passes + 2 * 2
    assert house.rows("half_message")


def test_checks_that_have_stopped_are_told_two_landings_later_though_nothing_else_is_new(open_house, served):
    house = open_house(*QUICK, "transaction_check_interval=30s")
    served.offsets = changed(served.offsets, rb"(TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>10")
    last = max(row["queueOffset"] for row in truth.rows(CAPTURE, "half"))

    def unchecked() -> list[tuple[int | None, int]]:
        return [(each.half_offset, each.waiting) for each in stopped_checks(WarehouseReader(house.warehouse.uri))]

    begin = NOW + timedelta(hours=2)  # the capture was stored meanwhile
    assert "idle" not in land(house, served, now=begin).counts
    assert unchecked() == []
    assert land(house, served, now=begin + timedelta(seconds=1)).counts["idle"] == 1
    # Two intervals of 30 s and the 60 s that a round may take for the queue (R38).
    later = begin + timedelta(seconds=121)
    assert "idle" not in land(house, served, Parts.OFFSETS, later).counts
    assert unchecked() == [(10, last + 1 - 10)]
    served.offsets = changed(served.offsets, rb"(TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>11")
    land(house, served, Parts.OFFSETS, later + timedelta(seconds=1))
    assert unchecked() == []
    land(house, served, Parts.OFFSETS, later + timedelta(seconds=200))
    assert unchecked() == [(11, last + 1 - 11)]


def test_halves_that_the_checks_have_passed_over_are_told_by_the_landing_that_reads_them(open_house, served):
    """Somebody moves the cursor of the broker's checks over halves that nobody has decided."""
    house = open_house(*QUICK)
    halves = truth.rows(CAPTURE, "half")
    newest = {row["properties"]["UNIQ_KEY"]: row["queueOffset"] for row in sorted(halves, key=offset_of)}
    end = max(newest.values()) + 1
    at = {"offset": 0}

    def checks(request):
        if request["code"] != 14:
            return None
        assert request["extFields"]["consumerGroup"] == "CID_RMQ_SYS_TRANS"
        return answer(request, offset=at["offset"])

    served.interrupt = checks
    without_the_last_ops(served)

    def passed() -> int:
        return sum(each.count for each in passed_over(WarehouseReader(house.warehouse.uri)))

    def stands(offset: int) -> None:
        served.offsets = changed(
            served.offsets, rb"(TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>%d" % offset
        )

    stands(0)
    land(house, served)
    house.reconcile(NOW)
    undecided = len(house.rows("pending_half"))
    assert (undecided > 0, passed()) == (True, 0)
    stands(end)  # moved after the halves were read: a round may have put some back behind what was read
    land(house, served, now=NOW + timedelta(seconds=1))
    assert passed() == 0
    at["offset"] = end
    land(house, served, now=NOW + timedelta(seconds=2))
    assert passed() == undecided
    at["offset"] = 0
    stands(0)
    land(house, served, now=NOW + timedelta(seconds=3))
    assert passed() == 0, "moved back: they are looked at again"
    at["offset"] = end
    stands(end)
    land(house, served, Parts.OFFSETS, NOW + timedelta(seconds=4))
    assert passed() == 0, "the halves were not read with it"
    land(house, served, Parts.QUEUES, NOW + timedelta(seconds=5))
    assert passed() == undecided, "nothing else is new, and a service reads offsets on their own"
    assert land(house, served, Parts.QUEUES, NOW + timedelta(seconds=6)).counts["idle"] == 1


def without_the_last_ops(served: LiveCapture) -> None:
    """What they decide is undecided then, and what was given up is as well."""
    served.broker.queues[OP_TOPIC, 0] = served.broker.queues[OP_TOPIC, 0][:3]
    served.broker.queues[GIVEN_UP_TOPIC, 0] = []


def offset_of(row: dict) -> int:
    return int(row["queueOffset"])


def test_real_topics_of_a_broker_with_tiered_storage_are_not_read_and_said_so(open_house, served):
    """R134: a message from there tells a place in a file of its queue alone, as if it were one in the commit log."""
    house = open_house(*QUICK)
    plug_in = b"\nmessageStorePlugIn=org.apache.rocketmq.tieredstore.TieredMessageStore\n"
    served.config += plug_in
    findings = " ".join(land(house, served).findings)
    assert "tiered: not read, what comes from tiered storage has lost its place" in findings
    assert "TopicA" in findings
    house.audit()
    verdicts = {row["verdict"] for row in house.rows("verdict")}
    assert (house.rows("message"), "ROLLED_BACK" in verdicts, "RESOLVED_UNKNOWN" in verdicts) == ([], False, True)
    (row,) = house.rows("broker_set_up")
    assert row["set_ups"] == "tiered"
    served.config = served.config.replace(plug_in, plug_in + b"tieredStorageLevel=DISABLE\n")
    land(house, served)
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)


def test_compaction_topics_of_a_live_broker_are_not_read_and_said_so_and_static_ones_are(open_house, served):
    house = open_house(*QUICK)
    served.broker.topics = {
        "topicConfigTable": {"TopicA": {"attributes": {"cleanup.policy": "COMPACTION"}}, OP_TOPIC: {"attributes": {}}},
        "topicQueueMappingDetailMap": {"TopicA": {}, "TopicElsewhere": {}},
    }
    served.interrupt = lambda request: (
        answer(request, body=b'{"table":{"brokerVersionDesc":"V5_5_0"}}') if request["code"] == 28 else None
    )
    report = land(house, served)
    findings = [words for words in report.findings if "topics" in words or "compaction" in words]
    assert findings == [
        f"broker {BROKER}: static_topics: read as this broker numbers their queues (R122): TopicA",
        f"broker {BROKER}: compaction: not read, a live broker shows less than was visible (R123); land its store: TopicA",
    ]
    (row,) = house.rows("broker_set_up")
    assert (row["set_ups"], row["version"], row["broker_role"]) == (
        "compaction, static_topics",
        "V5_5_0",
        "ASYNC_MASTER",
    )
    assert "transactionTimeOut is 2s" in row["differences"]
    assert "TopicA" not in {row["topic"] for row in house.rows("message")}
    assert len(house.rows("half_message")) == len(truth.rows(CAPTURE, "half"))
    assert not [row for row in house.rows("landing_frontier") if row["topic"] in ("TopicA", "**")]
    house.audit()
    of_a = {row["verdict"] for row in house.rows("verdict") if row["real_topic"] == "TopicA"}
    assert not of_a & {"COMMITTED", "ROLLED_BACK"}, "nobody saw whether their messages were visible"


def test_what_a_broker_tells_after_the_clock_stepped_back_is_its_newest_and_lands_once(open_house, served):
    house = open_house(*QUICK)
    land(house, served, Parts.OFFSETS)
    (first,) = [row["next_offset"] for row in house.rows("consumer_offset_commit") if row["topic"] == HALF_TOPIC]
    for minutes, offset in enumerate((999, first, 1000)):
        served.offsets = changed(
            served.offsets, rb"(TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>%d" % offset
        )
        # What another queue tells brings no row of this one.
        served.offsets = changed(
            served.offsets, rb"(TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS.:.\s*0:)\d+", rb"\g<1>%d" % (minutes + 500)
        )
        back = NOW - timedelta(minutes=60 - minutes)
        assert land(house, served, Parts.OFFSETS, back).counts["broker_offsets"] == 2
        house.rollup()
        held = {row["topic"]: (row["next_offset"], row["late_count"]) for row in house.rows("consumer_offset")}
        assert held[HALF_TOPIC] == (offset, 0)


def test_offsets_that_are_not_told_in_time_do_not_hold_up_the_queues(open_house, served):
    house = open_house(*QUICK)
    served.interrupt = lambda request: [] if request["code"] == 43 else None  # never an answer
    slow = land(house, served)
    assert (slow.counts["unread"], len(house.rows("half_message"))) == (1, len(truth.rows(CAPTURE, "half")))
    again = land(house, served)
    assert (again.counts["idle"], again.counts["unread"]) == (1, 1)
    assert any("its consumer offsets could not be read" in words for words in again.findings)
    with pytest.raises(UnreachableError):
        land(house, served, Parts.OFFSETS)


def test_a_broker_without_a_topic_config_of_its_ops_lands_them_all_the_same(open_house, served):
    served.broker.unregistered = {OP_TOPIC}  # as 4.9 does
    house = open_house(*QUICK)
    first = land(house, served)
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)
    assert first.counts["unread"] == 0
    frontier = {(row["topic"], row["queue_id"]): row["next_offset"] for row in house.rows("landing_frontier")}
    assert frontier[OP_TOPIC, 0] == len(truth.rows(CAPTURE, "op"))
    before = house.versions()
    land(house, served)
    assert house.versions() == before


def changed(table: bytes, pattern: bytes, to: bytes) -> bytes:
    """The table with one place of its text replaced: a broker's JSON has numbers for keys."""
    text, places = re.subn(pattern, to, table, count=1)
    assert places == 1
    return text


@pytest.mark.long
def test_a_run_is_bounded_and_the_next_goes_on_until_all_has_landed(open_house, served):
    house = open_house(*QUICK, "rocketmq.messages_per_run=70")
    halves, behind, has_more = [], [], []
    while not behind or behind[-1]:
        report = land(house, served)
        behind.append(report.counts["behind"])
        has_more.append(report.has_more)
        halves.append(len(house.rows("half_message")))
    # Halves wait for all that was decided about them: for the 75 messages of the other queues. A run takes 70 of all 208.
    assert len(truth.rows(CAPTURE, "half")) == 208 - 75
    assert halves == [0, 2 * 70 - 75, 208 - 75]
    assert behind == [208 - 70, 208 - 2 * 70, 0]
    assert has_more == [True, True, False]
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)


def test_a_topic_of_which_a_queue_refused_is_not_read_whole(open_house, served):
    house = open_house(*QUICK, "land.topics=[TopicA]")

    def whole() -> bool:
        return ("TopicA", WHOLE_QUEUE_ID) in {(row["topic"], row["queue_id"]) for row in house.rows("landing_frontier")}

    served.interrupt = lambda request: (
        answer(request, 16, remark="busy")
        if request["code"] == 30 and (request["extFields"]["topic"], request["extFields"]["queueId"]) == ("TopicA", "0")
        else None
    )
    assert land(house, served).counts["unread"] == 1
    assert not whole()
    served.interrupt = lambda request: None
    land(house, served)
    assert whole()


def test_what_retention_deletes_while_it_is_read_is_lost_and_told_so(open_house, served):
    house = open_house(*QUICK)

    def deleting(request):
        if request["code"] == 11:  # planned by now
            served.broker.lowest["TopicA", 1] = 3

    served.interrupt = deleting
    land(house, served)
    lost = {(row["topic"], row["queue_id"]) for row in house.rows("landing_frontier") if row["lost_before_timestamp"]}
    assert lost == {("TopicA", 1)}


def test_what_was_lost_ends_at_the_first_record_that_can_be_read(open_house, served):
    house = open_house(*QUICK)
    queue, spoil = ("TopicA", 1), BAD["another CRC"][0]
    records = served.broker.queues[queue]
    records[3] = spoil(records[3])
    served.broker.lowest[queue] = 3
    land(house, served, Parts.QUEUES)
    (lost,) = [row for row in house.rows("landing_frontier") if row["lost_before_timestamp"]]
    (fourth,) = [
        row for row in house.rows("message") if (row["topic"], row["queue_id"], row["queue_offset"]) == (*queue, 4)
    ]
    assert (lost["topic"], lost["queue_id"]) == queue
    assert lost["lost_before_timestamp"] == fourth["store_timestamp"]


def test_a_stretch_of_bad_records_longer_than_a_run_is_read_past(open_house, served):
    house = open_house(*QUICK, "land.topics=[TopicA]")
    queues = served.broker.queues
    queue = max((queue for queue in queues if queue[0] == "TopicA"), key=lambda queue: len(queues[queue]))
    full = queues[queue]
    behind_bad = len(full) - 3 - len(BAD)
    assert behind_bad > 0

    def landed() -> int:
        return sum((row["topic"], row["queue_id"]) == queue for row in house.rows("message"))

    queues[queue] = full[:3]
    land(house, served, Parts.QUEUES)
    spoilt = [spoil(record) for (spoil, _), record in zip(BAD.values(), full[3:], strict=False)]
    queues[queue] = full[:3] + spoilt + full[3 + len(BAD) :]
    house = replace(
        house,
        settings=Settings.load(
            assignments=[*QUICK, "land.topics=[TopicA]", "rocketmq.messages_per_run=4"], warehouse=house.warehouse.uri
        ),
    )
    to_read, seen = len(full) - 3, []
    while to_read > 0:
        to_read = max(to_read - 4, 0)
        seen.append((land(house, served, Parts.QUEUES).counts["behind"], to_read))
    assert [behind for behind, _ in seen] == [expected for _, expected in seen]
    assert landed() == 3 + behind_bad
    assert sorted(row["reason"] for row in house.rows("quarantine")) == sorted(reason for _, reason in BAD.values())
    assert land(house, served, Parts.QUEUES).counts["idle"] == 1
    assert not [row for row in house.rows("landing_frontier") if row["lost_before_timestamp"]]


def test_bad_records_are_read_once_and_are_not_lost(open_house, served):
    house = open_house(*QUICK)
    queues = served.broker.queues = {(HALF_TOPIC, 0): [], (OP_TOPIC, 0): []}
    numbers, spoils = range(len(BAD)), [spoil for spoil, _ in BAD.values()]
    served.read_queues = {"TopicA": len(BAD)}  # no others of the capture

    def stored(number: int, offset: int) -> bytes:
        return encode_record(10**9 + 1000 * number + offset, queue_id=number, queue_offset=offset)

    for number in numbers:
        queues["TopicA", number] = [spoils[number](stored(number, 0))]
    first = land(house, served, Parts.QUEUES)
    assert sorted(row["reason"] for row in house.rows("quarantine")) == sorted(reason for _, reason in BAD.values())
    assert first.counts["behind"] == first.counts["unread"] == 0
    for number in numbers:
        queues["TopicA", number] += [stored(number, 1), spoils[number](stored(number, 2))]
    land(house, served, Parts.QUEUES)
    assert land(house, served, Parts.QUEUES).counts["idle"] == 1
    for number in numbers:
        queues["TopicA", number].append(stored(number, 3))
    last = land(house, served, Parts.QUEUES)
    assert last.counts["queues_rebuilt"] == last.counts["queues_shrank"] == 0
    assert {(row["queue_id"], row["queue_offset"]) for row in house.rows("message")} == {
        (number, offset) for number in numbers for offset in (1, 3)
    }
    frontier = {row["queue_id"]: row for row in house.rows("landing_frontier") if row["queue_id"] != WHOLE_QUEUE_ID}
    assert {number: row["lost_before_timestamp"] for number, row in frontier.items()} == dict.fromkeys(numbers)
    assert {number: row["source_identity"] for number, row in frontier.items()} == {
        number: f"3:{10**9 + 1000 * number + 3}:{STORE_MS}" for number in numbers
    }


def test_without_its_ops_no_half_lands_and_the_fault_is_counted(open_house, served):
    house = open_house(*QUICK)
    served.interrupt = lambda request: (
        answer(request, 16, remark="no permission")
        if request["code"] == 11 and request["extFields"]["topic"] == OP_TOPIC
        else None
    )
    refused = land(house, served)
    assert refused.counts["unread"] == 1
    assert not {"half", "op"} & set(refused.counts)
    assert refused.counts["message"] > 0
    assert any(f"{OP_TOPIC} queue 0" in words and "no permission" in words for words in refused.findings)
    assert not house.rows("quarantine")
    served.interrupt = lambda request: None
    land(house, served)
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)


@pytest.mark.long
def test_a_broker_that_goes_away_while_it_is_read_loses_nothing(open_house, served):
    house, pulls = open_house(*QUICK), []

    def hang_up(request):
        if request["code"] == 11:
            pulls.append(request)
            if len(pulls) > 3:
                return []  # never an answer
        return None

    served.interrupt = hang_up
    broken = land(house, served)
    assert broken.counts["unread"] > 0
    served.interrupt = lambda request: None
    mended = land(house, served)
    assert mended.counts["unread"] == 0
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)


@pytest.mark.long
def test_a_broker_that_is_down_is_an_error_and_one_that_moved_is_found(open_house, served):
    house = open_house(*QUICK)
    served.server.close()
    with pytest.raises(UnreachableError, match=served.server.address):
        land(house, served)
    moved = []

    def once(request):
        if not moved and request["code"] == 30:
            moved.append(request)
            served.restart()
            return []
        return None

    served.restart()
    served.interrupt = once
    report = land(house, served)
    assert any("its master moved from" in words and served.server.address in words for words in report.findings)
    assert len(house.rows("half_message")) == len(truth.rows(CAPTURE, "half"))


@pytest.mark.long
def test_a_cycle_goes_on_without_sources_that_cannot_be_read(open_house, served, tmp_path):
    served.close()
    files = f"{{kind: half, paths: [{truth.CAPTURES / CAPTURE / 'half.jsonl.gz'}], broker: {BROKER}}}"
    store = f"{{kind: store, paths: [{tmp_path}/gone], broker: {BROKER}}}"
    source = f'sources=[{{kind: rocketmq, namesrv: ["{served.address}"]}}, {store}, {files}]'
    house = open_house(*QUICK, source)
    seen = {}
    report = run_sources(
        house.warehouse, house.settings, now=NOW, wall_clock=wall_clock, environ={}, on_step=seen.__setitem__
    )
    halves = len(truth.rows(CAPTURE, "half"))
    assert (report.job, report.number, report.counts["unread"], report.counts["half"]) == ("land", 1, 2, halves)
    assert [type(each).__name__ for each in seen.values()] == ["UnreachableError", "InputError", "PassReport"]
    assert {row["job"] for row in house.rows("pass")} == {"land"}
    report = run_cycle(house.warehouse, house.settings, now=NOW, wall_clock=wall_clock, environ={})
    assert report.counts["unread"] == 2
    assert report.findings[0].startswith(f"land rocketmq {served.address}: not read: no name server answers")
    assert report.findings[1].startswith(f"land store {tmp_path}/gone: not read: ")


@pytest.mark.long
def test_a_landing_killed_between_its_writes_is_read_again_from_where_the_tables_end(open_house, served):
    house = open_house(*QUICK)

    with house.killed_after("message"):
        land(house, served)
    land(house, served)
    house.audit()
    assert {key: one for key, one in judged(house).items() if one[0] != "DIVERTED"} == expected(CAPTURE)
    states = {row["state"] for row in house.rows("pass") if row["job"] == "land"}
    assert states == {"started", "abandoned", "committed"}
    assert not house.rows("quarantine")


def producers(**groups: list[str]) -> bytes:
    of_groups = {
        group: [
            {"clientId": id_, "language": "JAVA", "lastUpdateTimestamp": 1, "remoteIP": "127.0.0.1", "version": 1}
            for id_ in ids
        ]
        for group, ids in groups.items()
    }
    return json.dumps({"data": of_groups}).encode()


def test_who_is_connected_is_kept_and_a_client_that_goes_is_news(open_house, served):
    """R130: GET_ALL_PRODUCER_INFO; a broker that does not know it (the other tests) tells nothing."""
    house = open_house(*QUICK, "transaction_check_interval=30s")
    body = producers(GID_A=["10.0.0.9@1", "10.0.0.8@2"], GID_B=[])
    served.interrupt = lambda request: answer(request, body=body) if request["code"] == 328 else None
    land(house, served)

    def connected() -> dict[str, tuple[int, str | None, int]]:
        rows = house.rows("connected_producer")
        return {row["producer_group"]: (row["clients"], row["client_ids"], row["pass_number"]) for row in rows}

    assert connected() == {"*": (2, None, 1), "GID_A": (2, "10.0.0.8@2, 10.0.0.9@1", 1), "GID_B": (0, None, 1)}
    assert "idle" in land(house, served, now=NOW + timedelta(seconds=1)).counts
    body = producers()
    land(house, served, now=NOW + timedelta(seconds=2))
    assert connected() == {"*": (0, None, 2), "GID_A": (0, None, 2), "GID_B": (0, None, 1)}
    body = b"[]"
    (finding,) = [each for each in land(house, served).findings if "producers" in each]
    assert finding.startswith(f"broker {BROKER}: which producers are connected is not known: ")
    assert connected()["*"] == (0, None, 2), "what is not known changes nothing"


def test_of_an_older_broker_the_producers_of_groups_that_wait_are_asked_about(open_house, served):
    """R130: it knows GET_PRODUCER_CONNECTION_LIST (204) alone, and tells of no group that it is not asked about."""
    house = open_house(*QUICK)
    groups_asked_about = []

    def of_one_group(request):
        if request["code"] != 204:
            return None
        groups_asked_about.append(request["extFields"]["producerGroup"])
        ids = ["10.0.0.9@1"] if groups_asked_about[-1] == there else []
        return answer(request, body=json.dumps({"connectionSet": [{"clientId": id_} for id_ in ids]}).encode())

    served.interrupt, there = of_one_group, None
    without_the_last_ops(served)
    land(house, served)
    assert groups_asked_about == []
    house.reconcile(NOW)
    waiting = {row["producer_group"] for row in house.rows("pending_half")}
    there = min(waiting)
    land(house, served, now=NOW + timedelta(seconds=1))
    assert {*groups_asked_about} == waiting
    assert {row["producer_group"]: row["clients"] for row in house.rows("connected_producer")} == {
        group: int(group == there) for group in waiting
    }
    passes = len(house.rows("pass"))
    land(house, served, now=NOW + timedelta(seconds=2))
    assert len(house.rows("pass")) == passes, "nothing new"


def test_where_more_groups_wait_than_an_older_broker_is_asked_about_those_with_most_halves_go_first(
    open_house, monkeypatch
):
    house = open_house(*QUICK)
    uri = Path(house.warehouse.uri)
    groups = ["FEW", *["MANY"] * 3, *["SOME"] * 2]
    waiting = [{"broker_name": BROKER, "transaction_id": f"T{n}", "producer_group": g} for n, g in enumerate(groups)]
    elsewhere = [{"broker_name": "b", "transaction_id": f"E{n}", "producer_group": "ELSEWHERE"} for n in range(9)]
    append(
        uri,
        "pending_half",
        [*waiting, *elsewhere, {"broker_name": BROKER, "transaction_id": "T", "producer_group": None}],
    )
    known = {"*": 9, "GONE": 0, "THERE": 2, "FEW": 1}
    append(
        uri,
        "connected_producer",
        [{"broker_name": BROKER, "producer_group": g, "clients": n} for g, n in known.items()],
    )
    for most in (10, 4, 2):
        monkeypatch.setattr(broker_said, "MOST_GROUPS", most)
        groups_asked_about = broker_said.waiting_groups(house.warehouse, BROKER)
        assert groups_asked_about == ["MANY", "SOME", "FEW", "THERE", "GONE"][:most]
