"""Reading a range of a live queue: every message once, whatever the broker's answers hold or leave out."""

from __future__ import annotations

import pytest
from record_encoder import encode_record
from remoting_server import FakeBroker, RemotingServer, answer

from txmq_lib.errors import ProtocolError, RefusedError
from txmq_lib.rocketmq.live_source import MESSAGES_PER_TASK, RANGE_UNREAD, access_of, grouped, read_ranges
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange, read_queue
from txmq_lib.rocketmq.store.message_format import HEADER_FIELDS, read_frame, read_header

ACCESS = Access(timeout=2)
QUEUE = ("TopicA", 0)
OPS = ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)


def records(count: int, topic: str = QUEUE[0]) -> list[bytes]:
    log, found = 0, []
    for offset in range(count):
        found.append(encode_record(log, topic=topic.encode(), queue_offset=offset, body=b"xxxxx"))
        log += len(found[-1]) + 100
    return found


def read(fake: FakeBroker, start: int, stop: int, queue: tuple[str, int] = QUEUE) -> tuple[list[int], list[bytes]]:
    """Queue offsets of whole records, sorted, and the bytes of torn ones."""
    offsets, torn = [], []
    with RemotingServer(fake) as server, Connection(server.address, ACCESS) as peer:
        for part in read_queue(peer, "TXMQ_READER", QueueRange(*queue, start, stop)):
            headers = [read_header(part.data, read_frame(part.data, *edges)) for edges in part.whole]
            offsets += [header[HEADER_FIELDS.index("queue_offset")] for header in headers]
            torn += [part.data[start:end] for _, start, end in part.torn]
    return sorted(offsets), torn


@pytest.mark.parametrize("most", [1, 7, 32])
def test_every_message_of_the_range_is_read_once_however_few_come_at_once(most):
    assert read(FakeBroker({QUEUE: records(300)}, most=most), 5, 290) == (list(range(5, 290)), [])


def test_what_retention_deleted_meanwhile_is_passed_over():
    fake = FakeBroker({QUEUE: records(200)})
    fake.lowest[QUEUE] = 77
    assert read(fake, 0, 200) == (list(range(77, 200)), [])
    fake.lowest[QUEUE] = 500
    assert read(fake, 0, 200) == ([], [])


def test_a_queue_that_ends_before_its_range_is_an_error():
    with pytest.raises(ProtocolError, match="TopicA queue 0 gives nothing at offset"):
        read(FakeBroker({QUEUE: records(40)}), 0, 100)


def test_a_broker_that_never_gets_on_is_an_error():
    fake = FakeBroker({QUEUE: records(10)})
    fake.before = lambda request: answer(request, nextBeginOffset=0)
    with pytest.raises(ProtocolError, match="gives nothing at offset 0"):
        read(fake, 0, 10)


def test_a_busy_broker_is_asked_again_a_few_times():
    fake, refusals = FakeBroker({QUEUE: records(100)}), iter([2, 2, 2])

    def busy(request):
        code = next(refusals, 0)
        return answer(request, code, remark="[TIMEOUT_CLEAN_QUEUE]broker busy") if code else None

    fake.before = busy
    assert read(fake, 0, 100)[0] == list(range(100))
    fake.before = lambda request: answer(request, 2, remark="busy")
    with pytest.raises(RefusedError, match="pull: code 2, busy"):
        read(fake, 0, 100)


def test_a_record_that_cannot_be_read_is_told_and_those_behind_it_are_read():
    stored = records(70)
    cut = stored[40][:30] + b"\xff" * (len(stored[40]) - 30)
    stored[40] = cut
    offsets, torn = read(FakeBroker({QUEUE: stored}), 0, 70)
    assert offsets == [*range(40), *range(41, 70)]
    assert [each[:30] for each in torn] == [cut[:30]]


@pytest.mark.parametrize(
    "place", [{"queue_offset": 2**61}, {"queue_offset": 20, "queue_id": 1}, {"queue_offset": 20, "topic": b"TopicB"}]
)
def test_a_record_that_states_another_place_is_told_and_lands_nowhere(place):
    stored = records(40)
    stored[20] = encode_record(9999, **place)
    offsets, torn = read(FakeBroker({QUEUE: stored}), 0, 40)
    assert offsets == [*range(20), *range(21, 40)]
    assert torn == [stored[20]]


def test_an_answer_that_nobody_waits_for_any_more_is_an_error():
    fake = FakeBroker({QUEUE: records(64)})
    fake.before = lambda request: answer(request | {"opaque": 1}, 0, records(32)[0] * 0, nextBeginOffset=32)
    with pytest.raises(ProtocolError):
        read(fake, 0, 64)


def rows(fake: FakeBroker, *ranges: QueueRange) -> list[dict]:
    with RemotingServer(fake) as server:
        return [
            row for batch in read_ranges(server.address, ACCESS, "TXMQ_READER", ranges) for row in batch.to_pylist()
        ]


def test_rows_are_those_of_the_store_reader():
    row = rows(FakeBroker({QUEUE: records(3)}), QueueRange(*QUEUE, 2, 3))[0]
    assert {name: row[name] for name in ("topic", "queue_id", "queue_offset", "body", "reason", "properties")} == {
        "topic": "TopicA", "queue_id": 0, "queue_offset": 2, "body": b"xxxxx", "reason": None,
        "properties": [("KEYS", "k1"), ("TAGS", "t1")],
    }  # fmt: skip
    assert row["commit_log_offset"] == row["position"] > 0


def test_a_record_that_cannot_be_read_is_a_row_that_has_the_place_it_was_read_from():
    stored = records(5)
    stored[1] = stored[1][:4] + bytes(4) + stored[1][8:]
    stored[3] = encode_record(9999, queue_id=7, queue_offset=3)
    found = rows(FakeBroker({QUEUE: stored}), QueueRange(*QUEUE, 0, 5))
    places = [(row["topic"], row["queue_id"], row["queue_offset"]) for row in found]
    assert sorted(places) == [(*QUEUE, offset) for offset in range(5)]
    assert {row["queue_offset"]: row["commit_log_offset"] for row in found if row["reason"] == "RECORD_TORN"} == {
        1: None, 3: None,
    }  # fmt: skip


def test_a_range_that_cannot_be_read_is_a_row_and_the_others_are_read():
    fake = FakeBroker({(topic, 0): records(40, topic) for topic in "abc"})
    fake.before = lambda request: (
        answer(request, 16, remark="no permission") if request["extFields"]["topic"] == "b" else None
    )
    found = rows(fake, *(QueueRange(topic, 0, 0, 40) for topic in "abc"))
    assert [row["reason"] for row in found].count(None) == 80
    (unread,) = [row for row in found if row["reason"]]
    assert (unread["topic"], unread["queue_id"], unread["reason"]) == ("b", 0, RANGE_UNREAD)
    assert b"pull: code 16, no permission" in unread["raw"]


def test_a_broker_that_goes_away_leaves_every_range_that_waits_unread_and_is_not_asked_for_each():
    fake, requests = FakeBroker({(topic, 0): records(40, topic) for topic in "abc"}), []

    def hang_up(request):
        requests.append(request)
        return [] if request["extFields"]["topic"] == "b" else None

    fake.before = hang_up
    with RemotingServer(fake) as server:
        ranges = [QueueRange(topic, 0, 0, 40) for topic in "abc"]
        found = [row for batch in read_ranges(server.address, Access(0.3), "G", ranges) for row in batch.to_pylist()]
    assert [(row["topic"], row["queue_offset"]) for row in found if row["reason"]] == [("b", 0), ("c", 0)]
    assert {request["extFields"]["topic"] for request in requests} == {"a", "b"}


def test_a_broker_that_is_not_there_leaves_all_unread():
    with RemotingServer(answer) as gone:
        pass
    found = list(read_ranges(gone.address, ACCESS, "G", [QueueRange("a", 0, 0, 9), QueueRange("b", 0, 0, 9)]))
    assert [batch.column("reason").to_pylist() for batch in found] == [[RANGE_UNREAD], [RANGE_UNREAD]]


def test_large_ranges_are_cut_and_small_ones_put_together():
    small = [QueueRange("s", number, 0, 10) for number in range(600)]
    large = QueueRange("l", 0, 100, 100 + 2 * MESSAGES_PER_TASK + 7)
    groups = list(grouped([large, *small]))
    assert all(sum(each.stop - each.start for each in group) <= MESSAGES_PER_TASK for group in groups)
    assert [len(group) for group in groups] == [1, 1, 256, 256, 89]
    pieces = [each for group in groups for each in group if each.topic == "l"]
    assert [(each.start, each.stop) for each in pieces] == [
        (100, 100 + MESSAGES_PER_TASK), (100 + MESSAGES_PER_TASK, 100 + 2 * MESSAGES_PER_TASK),
        (100 + 2 * MESSAGES_PER_TASK, 107 + 2 * MESSAGES_PER_TASK),
    ]  # fmt: skip
    assert [each for group in groups for each in group if each.topic == "s"] == small


def test_keys_are_named_by_options_and_taken_from_the_environment():
    options = {"timeout": "1.5", "access_key_env": "AK", "secret_key_env": "SK", "tls": "true", "ca_file": "/ca"}
    access = access_of(options, {"AK": "key", "SK": "secret"})
    assert (access.timeout, access.credentials.access_key, access.credentials.secret_key) == (1.5, "key", "secret")
    assert (access.tls.ca_file, access.tls.checks_host_name) == ("/ca", True)
    assert access_of({"timeout": "3"}, {}) == Access(3.0)
    with pytest.raises(Exception, match="variable SK is not set"):
        access_of(options, {"AK": "key"})


def test_nothing_is_asked_for_an_empty_range():
    fake = FakeBroker({})
    assert read(fake, 4, 4) == ([], [])


# --- op queues of 4.9, which has no topic config of theirs


def old_broker(stored: list[bytes], *, most: int = 100_000) -> FakeBroker:
    fake = FakeBroker({OPS: stored}, most=most)
    fake.unregistered = {OPS[0]}
    return fake


@pytest.mark.parametrize("most", [7, 100_000])
def test_ops_that_may_not_be_pulled_are_listed_and_each_is_read_once(most):
    assert read(old_broker(records(300, OPS[0]), most=most), 5, 290, OPS) == (list(range(5, 290)), [])


def test_listing_ops_writes_nothing_and_costs_one_request_per_op():
    fake, codes = old_broker(records(600, OPS[0])), []

    def noted(request):
        codes.append(request["code"])

    fake.before = noted
    assert len(read(fake, 0, 600, OPS)[0]) == 600
    assert {code: codes.count(code) for code in set(codes)} == {11: 1, 321: 3, 33: 600}


def test_a_broker_that_lets_ops_be_pulled_is_not_asked_for_each():
    fake, codes = FakeBroker({OPS: records(64, OPS[0])}), []

    def noted(request):
        codes.append(request["code"])

    fake.before = noted
    assert read(fake, 0, 64, OPS) == (list(range(64)), [])
    assert set(codes) == {11}


def test_only_op_queues_are_listed_another_topic_that_is_not_there_is_unread():
    fake = FakeBroker({QUEUE: records(10)})
    fake.unregistered = {QUEUE[0]}
    with pytest.raises(RefusedError, match="pull: code 17"):
        read(fake, 0, 10)


def test_ops_that_are_refused_for_another_reason_are_unread():
    fake = FakeBroker({OPS: records(10, OPS[0])})
    fake.before = lambda request: answer(request, 16, remark="no permission") if request["code"] == 11 else None
    with pytest.raises(RefusedError, match="pull: code 16, no permission"):
        read(fake, 0, 10, OPS)


def test_listed_ops_that_retention_deleted_are_passed_over():
    fake = old_broker(records(200, OPS[0]))
    fake.lowest[OPS] = 77
    assert read(fake, 0, 200, OPS) == (list(range(77, 200)), [])
    fake.lowest[OPS] = 500
    assert read(fake, 0, 200, OPS) == ([], [])


def test_ops_that_retention_deletes_between_their_entries_and_their_records_are_passed_over():
    fake, listings = old_broker(records(200, OPS[0])), []

    def deleted_meanwhile(request):
        if request["code"] == 33 and not listings:
            listings.append(request)
            fake.lowest[OPS] = 77

    fake.before = deleted_meanwhile
    assert read(fake, 0, 200, OPS) == (list(range(77, 200)), [])


def test_an_op_that_is_missing_though_its_queue_keeps_it_is_an_error():
    fake = old_broker(records(40, OPS[0]))
    missing = int.from_bytes(fake.queues[OPS][20][28:36])
    requests = []

    def lost(request):
        if request["extFields"].get("offset") != str(missing):
            return None
        requests.append(request)
        return answer(request, 1, remark="can not find message by the offset")

    fake.before = lost
    with pytest.raises(RefusedError, match="offset 20: code 1, can not find message"):
        read(fake, 0, 40, OPS)
    assert len(requests) == 2, "with those before it, and first"


def test_a_listed_queue_that_ends_before_its_range_is_an_error():
    with pytest.raises(ProtocolError, match="queue 0 gives nothing at offset 40"):
        read(old_broker(records(40, OPS[0])), 0, 100, OPS)


def test_a_record_that_is_not_what_its_entry_says_is_an_error():
    fake = old_broker(records(10, OPS[0]))
    fake.before = lambda request: answer(request, body=b"another") if request["code"] == 33 else None
    with pytest.raises(ProtocolError, match="has 7 bytes, and its queue says"):
        read(fake, 0, 10, OPS)


@pytest.mark.parametrize("busy_code", [33, 321])
def test_a_broker_that_is_busy_with_admin_requests_is_asked_again_a_few_times(busy_code):
    fake, refusals = old_broker(records(100, OPS[0])), iter([2, 2, 2])

    def busy(request):
        code = next(refusals, 0) if request["code"] == busy_code else 0
        return answer(request, code, remark="broker busy") if code else None

    fake.before = busy
    assert read(fake, 0, 100, OPS)[0] == list(range(100))
    fake.before = lambda request: answer(request, 2, remark="busy") if request["code"] == busy_code else None
    with pytest.raises(RefusedError, match="code 2, busy"):
        read(fake, 0, 100, OPS)


def test_a_listed_op_that_cannot_be_read_is_told_and_those_behind_it_are_read():
    stored = records(70, OPS[0])
    stored[40] = stored[40][:36] + b"\xff" * (len(stored[40]) - 36)
    stored[50] = encode_record(9_999_999, topic=OPS[0].encode(), queue_offset=2**61)
    offsets, torn = read(old_broker(stored), 0, 70, OPS)
    assert offsets == [*range(40), *range(41, 50), *range(51, 70)]
    assert torn[0][: len(stored[40])] == stored[40]
    assert stored[50] in torn


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"{", b'{"queueData":[1]}', b'{"queueData":[{"physicSize":5}]}', b'{"queueData":7}',
        b'{"queueData":[{"physicOffset":-1,"physicSize":5}]}', b'{"queueData":[{"physicOffset":true,"physicSize":5}]}',
        b'{"queueData":[' + b",".join([b'{"physicOffset":1,"physicSize":5}'] * 11) + b"]}",
    ],
)  # fmt: skip
def test_entries_that_are_none_are_a_protocol_error(body):
    fake = old_broker(records(10, OPS[0]))
    fake.before = lambda request: answer(request, body=body) if request["code"] == 321 else None
    with pytest.raises(ProtocolError):
        read(fake, 0, 10, OPS)
