"""Reading a range of a live queue: every message once, whatever the broker's answers hold or leave out."""

from __future__ import annotations

import pytest
from record_encoder import encode_record
from remoting_server import FakeBroker, RemotingServer, answer

from txmq_lib.errors import ProtocolError, RefusedError
from txmq_lib.remoting.connection import Access, Connection
from txmq_lib.sources.message_format import HEADER_FIELDS, read_header
from txmq_lib.sources.queue_reader import QueueRange, read_queue
from txmq_lib.sources.rocketmq import MESSAGES_PER_TASK, RANGE_UNREAD, access_of, grouped, read_ranges

ACCESS = Access(timeout=2)
QUEUE = ("TopicA", 0)


def records(count: int, size: int = 5) -> list[bytes]:
    log, found = 0, []
    for offset in range(count):
        found.append(encode_record(log, queue_offset=offset, body=b"x" * size))
        log += len(found[-1]) + 100
    return found


def read(fake: FakeBroker, start: int, stop: int) -> tuple[list[int], list[bytes]]:
    """Queue offsets of whole records, sorted, and the bytes of torn ones."""
    offsets, torn = [], []
    with RemotingServer(fake) as server, Connection(server.address, ACCESS) as peer:
        for part in read_queue(peer, "TXMQ_READER", QueueRange(*QUEUE, start, stop)):
            headers = [read_header(part.data, frame) for frame in part.frames]
            offsets += [header[HEADER_FIELDS.index("queue_offset")] for header in headers]
            torn += [part.data[start:end] for start, end in part.torn]
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


def test_a_record_that_states_another_place_in_its_queue_is_told_and_lands_nowhere():
    stored = records(40)
    stored[20] = encode_record(9999, queue_offset=2**61)
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


def test_a_range_that_cannot_be_read_is_a_row_and_the_others_are_read():
    fake = FakeBroker({("a", 0): records(40), ("b", 0): records(40), ("c", 0): records(40)})
    fake.before = lambda request: (
        answer(request, 16, remark="no permission") if request["extFields"]["topic"] == "b" else None
    )
    found = rows(fake, *(QueueRange(topic, 0, 0, 40) for topic in "abc"))
    assert [row["reason"] for row in found].count(None) == 80
    (unread,) = [row for row in found if row["reason"]]
    assert (unread["topic"], unread["queue_id"], unread["reason"]) == ("b", 0, RANGE_UNREAD)
    assert b"pull: code 16, no permission" in unread["raw"]


def test_a_broker_that_goes_away_leaves_every_range_that_waits_unread_and_is_not_asked_for_each():
    fake, asked = FakeBroker({(topic, 0): records(40) for topic in "abc"}), []

    def hang_up(request):
        asked.append(request)
        return [] if request["extFields"]["topic"] == "b" else None

    fake.before = hang_up
    with RemotingServer(fake) as server:
        ranges = [QueueRange(topic, 0, 0, 40) for topic in "abc"]
        found = [row for batch in read_ranges(server.address, Access(0.3), "G", ranges) for row in batch.to_pylist()]
    assert [(row["topic"], row["queue_offset"]) for row in found if row["reason"]] == [("b", 0), ("c", 0)]
    assert {request["extFields"]["topic"] for request in asked} == {"a", "b"}


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
