"""Many records looked at together are whole where read_frame, which looks at one, says so; their parts lie as it says."""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest
from record_encoder import encode_record, encode_records

from txmq_lib.rocketmq.store import records as r
from txmq_lib.rocketmq.store.message_batch import decode_batches
from txmq_lib.rocketmq.store.message_format import SMALLEST_RECORD, Frame, read_frame
from txmq_lib.rocketmq.store.records import Records, outlined, records_from

MIXED = [
    encode_record(0),
    encode_record(0, born_ip="::1", sys_flag=0x301, body=zlib.compress(b"text" * 99)),
    encode_record(0, store_ip="::1", topic=b"T" * 200),
    encode_record(0, born_ip="::1", store_ip="2001:db8::1", body=b"", properties=b""),
]


def frames_by_outline(data: bytes, starts: list[int], ends: list[int]) -> list[Frame | None]:
    bounds, is_whole = outlined(data, np.array(starts), np.array(ends))
    stated = np.zeros(len(starts), np.int64)
    stated[is_whole] = Records(data, bounds[is_whole]).offsets
    return [
        (row[r.END], offset, data[row[r.TOPIC] : row[r.TOPIC_END]], row[r.START], row[r.BODY], row[r.BODY_END],
         row[r.PROPERTIES]) if whole else None
        for row, offset, whole in zip(bounds.tolist(), stated.tolist(), is_whole.tolist(), strict=True)
    ]  # fmt: skip


def test_records_of_all_kinds_of_hosts_and_magics_are_found_as_one_by_one():
    log = b"".join(MIXED)
    ends = np.cumsum([len(record) for record in MIXED]).tolist()
    starts = [0, *ends[:-1]]
    expected = [read_frame(log, start, len(log)) for start in starts]
    assert None not in expected
    assert frames_by_outline(log, starts, ends) == expected


@pytest.mark.parametrize("seed", range(4))
def test_hostile_bytes_never_raise_and_are_no_record_together_where_they_are_none_alone(seed):
    chance = random.Random(20261121 + seed)
    log, starts = bytearray(), []
    for _ in range(1000):
        damaged = bytearray(chance.choice(MIXED))
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        noise = struct.pack(">iI", chance.randint(-1, 200), 0xDAA320A7) + chance.randbytes(192)
        for hostile in (damaged, noise):
            starts.append(len(log))
            log += hostile
    data = bytes(log)
    sizes = [struct.unpack_from(">i", data, start)[0] for start in starts]
    looked_at = [
        (start, start + size)
        for start, size in zip(starts, sizes, strict=True)
        if SMALLEST_RECORD <= size <= len(data) - start
    ]
    expected = [read_frame(data, start, end) for start, end in looked_at]
    whole = [frame for frame in expected if frame is not None]
    assert 200 < len(whole) < 1500
    assert frames_by_outline(data, *map(list, zip(*looked_at, strict=True))) == expected
    bounds, is_whole = outlined(data, *map(np.array, zip(*looked_at, strict=True)))
    assert sum(batch.num_rows for batch in decode_batches(Records(data, bounds[is_whole]))) == len(whole)


def test_a_record_without_a_topic_is_none():
    record = encode_record(0, topic=b"", body=b"a longer body")
    assert frames_by_outline(record, [0], [len(record)]) == [None]


def test_records_are_taken_up_to_the_first_that_is_none_and_to_the_limit():
    log = encode_records(0, 5)
    size = len(log) // 5
    torn = log[: 3 * size + 90] + b"X" * 4 + log[3 * size + 94 :]
    for why, data, start, limit, base, expected in [
        ("all", log, 0, len(log), 0, (5, 5 * size)),
        ("from the second on", log, size, len(log), 0, (4, 5 * size)),
        ("the limit lies inside the last", log, 0, len(log) - 1, 0, (4, 4 * size)),
        ("bytes behind that are none", log + b"?" * 100, 0, 5 * size + 100, 0, (5, 5 * size)),
        ("zeros behind", log + bytes(100), 0, 5 * size + 100, 0, (5, 5 * size)),
        ("the lengths inside the fourth do not add up", torn, 0, len(log), 0, (3, 3 * size)),
        ("they state another offset", log, 0, len(log), 7, (0, 0)),
        ("nothing there", b"", 0, 0, 0, (0, 0)),
        ("less than a record", log, 5 * size - 10, len(log), 0, (0, 5 * size - 10)),
    ]:
        records, end = records_from(data, start, limit, base)
        assert (len(records), end) == expected, why


def test_what_is_taken_at_once_is_bounded_in_records_and_in_bytes_but_one_may_be_larger():
    log = encode_records(0, 40)
    records, end = records_from(log, 0, len(log), 0, most=32)
    assert (len(records), end) == (32, 32 * len(log) // 40)
    large = encode_record(0, body=bytes(r.MOST_BYTES))
    log = large + encode_record(len(large), body=bytes(r.MOST_BYTES // 2 + 1)) * 1
    log += encode_record(len(log), body=bytes(r.MOST_BYTES // 2 + 1))
    assert [len(records_from(log, start, len(log), 0)[0]) for start in (0, len(large))] == [1, 1]
