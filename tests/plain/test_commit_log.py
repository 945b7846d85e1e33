"""The mapped files of a commit log: which there are, what is damaged, where the log ends, what a rebuilt one shows."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest
from record_encoder import MAGIC_BLANK, STORE_MS, blank, encode_record, encode_records, write_log

from txmq_lib.errors import InputError
from txmq_lib.pipeline.land.store.log_landing import stretches
from txmq_lib.rocketmq.store.commit_log import (
    LogEnd,
    LogFile,
    RecordIdentity,
    Torn,
    list_files,
    log_end,
    open_log,
    record_at,
    walk,
)
from txmq_lib.rocketmq.store.records import END, START, Records

SIZE = 118  # of one record that encode_record writes unless told otherwise
THREE = encode_records(0, 3)
FILE_SIZE = 4096


def steps(store: Path, start: int = 0, stop: int = FILE_SIZE, *, file: int = 0) -> list[tuple[int, int, bool]]:
    """(start, end, whether a record) of every step through one file."""
    opened = list_files(str(store)).files[file]
    with open_log(opened, opened.base_offset, opened.end_offset) as log:
        return [step for stretch in walk(log, start, stop) for step in steps_of(stretch, log.base_offset)]


def steps_of(stretch: Records | Torn, base: int) -> list[tuple[int, int, bool]]:
    if isinstance(stretch, Torn):
        return [(stretch.start, stretch.end, False)]
    sizes = (stretch.bounds[:, END] - stretch.bounds[:, START]).tolist()
    return [(begin, begin + size, True) for begin, size in zip(stretch.offsets.tolist(), sizes, strict=True)]


def end_of(store: Path, start: int = 0) -> LogEnd:
    return log_end(list_files(str(store)).files, start)


def flipped(log: bytes, position: int) -> bytes:
    return log[:position] + bytes([log[position] ^ 0x40]) + log[position + 1 :]


def zeroed(log: bytes, start: int, end: int) -> bytes:
    return log[:start] + bytes(end - start) + log[end:]


def test_the_files_of_a_log_are_listed_in_order_with_the_gaps_between_them(tmp_path):
    store = write_log(tmp_path, [THREE] * 5)
    log = store / "commitlog"
    (log / f"{2 * FILE_SIZE:020d}").unlink()
    (log / f"{5 * FILE_SIZE:020d}").touch()
    (log / "lock").touch()
    (log / "00000000000000000000.bak").write_bytes(THREE)
    (log / f"{6 * FILE_SIZE:020d}").mkdir()
    found = list_files(str(store))
    assert [(Path(file.path).name, file.base_offset, file.size) for file in found.files] == [
        ("00000000000000000000", 0, 4096),
        ("00000000000000004096", 4096, 4096),
        ("00000000000000012288", 12288, 4096),
        ("00000000000000016384", 16384, 4096),
    ]
    assert found.gaps == ((8192, 12288),)
    assert found.files[1].end_offset == 8192


def test_a_multi_path_log_is_one_log(tmp_path):
    write_log(tmp_path, [THREE] * 4)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("00000000000000000000", "00000000000000008192"):
        (tmp_path / "commitlog" / name).rename(other / name)
    found = list_files(str(tmp_path), [str(tmp_path / "commitlog"), str(other)])
    assert [file.base_offset for file in found.files] == [0, 4096, 8192, 12288]
    assert found.gaps == ()
    assert list_files(str(tmp_path)).gaps == ((8192, 12288),)


def test_a_file_named_for_an_offset_that_no_log_reaches_is_refused_by_name(tmp_path):
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "99999999999999999999").write_bytes(b"x")
    with pytest.raises(InputError, match="99999999999999999999 is named for an offset"):
        list_files(str(tmp_path))


def test_what_is_no_commit_log_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.commitlog"):
        list_files(str(tmp_path / "nowhere"))
    write_log(tmp_path, [THREE, THREE])
    (tmp_path / "commitlog" / "00000000000000000100").write_bytes(THREE)
    with pytest.raises(InputError, match=r"00000000000000000100 begins inside"):
        list_files(str(tmp_path))
    with pytest.raises(InputError, match="land again"), open_log(LogFile(str(tmp_path / "gone"), 0, 1), 0, 1):
        pass


@pytest.mark.parametrize(
    ("why", "at"),
    [("size", 2), ("magic", 4), ("own offset", 35), ("body length", 87), ("topic length", 93), ("IPv6 flag", 39)],
)
def test_a_byte_flipped_in_the_frame_costs_one_record(why, at, tmp_path):
    damaged = THREE[: SIZE + at] + bytes([THREE[SIZE + at] ^ 0x10]) + THREE[SIZE + at + 1 :]
    store = write_log(tmp_path, [damaged])
    assert steps(store, stop=3 * SIZE) == [(0, 118, True), (118, 236, False), (236, 354, True)], why


def test_reading_goes_on_behind_bytes_that_are_no_record(tmp_path):
    inner = encode_record(7_000_000)
    stale = encode_record(118)
    around = encode_record(118, body=inner)
    for why, log, expected in [
        ("torn inside", zeroed(THREE, 170, 236), [(0, 118, True), (118, 236, False), (236, 354, True)]),
        ("first one gone", zeroed(THREE, 0, 118), [(0, 118, False), (118, 236, True), (236, 354, True)]),
        ("two gone", zeroed(THREE, 0, 236), [(0, 236, False), (236, 354, True)]),
        ("nothing but zeros", bytes(354), [(0, 354, False)]),
        ("of another place", stale + THREE[118:], [(0, 118, False), (118, 236, True), (236, 354, True)]),
        (
            "a record in its body",
            flipped(THREE[:118] + around, 118 + 5) + encode_record(118 + len(around)),
            [(0, 118, True), (118, 118 + len(around), False), (118 + len(around), 236 + len(around), True)],
        ),
        ("cut at once by the end", THREE[:300], [(0, 118, True), (118, 236, True), (236, 300, False)]),
    ]:
        assert steps(write_log(tmp_path, [log]), stop=len(log)) == expected, why


def test_a_blank_record_ends_the_file(tmp_path):
    rest = encode_record(354 + 8)
    wrong_size = struct.pack(">iI", 100, MAGIC_BLANK)
    whole = [(0, 118, True), (118, 236, True), (236, 354, True)]
    for why, log, expected in [
        ("blank", THREE + blank(354), whole),
        ("stale bytes behind it", THREE + blank(354) + rest, whole),
        ("of another size, nothing behind it", THREE + wrong_size, whole),
        (
            "of another size, a record behind it",
            THREE + wrong_size + rest,
            [*whole, (354, 362, False), (362, 480, True), (480, 4096, False)],
        ),
        ("without one the rest should be records", THREE, [*whole, (354, 4096, False)]),
    ]:
        assert steps(write_log(tmp_path, [log])) == expected, why


def test_a_walk_keeps_to_its_range_and_to_its_file(tmp_path):
    second = encode_records(FILE_SIZE, 3)
    store = write_log(tmp_path, [THREE + blank(354), second])
    assert steps(store, 118, 236) == [(118, 236, True)]
    assert steps(store, 0, 9000) == [(0, 118, True), (118, 236, True), (236, 354, True)]
    assert steps(store, 0, 4096 + 236, file=1) == [(4096, 4214, True), (4214, 4332, True)]
    assert steps(store, 4214, 4332, file=1) == [(4214, 4332, True)]
    assert steps(store, 60, 354) == [(60, 118, False), (118, 236, True), (236, 354, True)]
    assert steps(store, 354, 354) == []


def test_whatever_is_damaged_the_other_records_are_found_and_every_byte_is_accounted_for(tmp_path):
    chance = random.Random(88)
    for _ in range(60):
        bodies = [chance.randbytes(chance.randrange(200)) for _ in range(12)]
        log, starts = b"", []
        for body in bodies:
            starts.append(len(log))
            log += encode_record(len(log), body=body)
        ends = [*starts[1:], len(log)]
        torn = set(chance.sample(range(12), 4))
        for index in torn:
            log = zeroed(log, starts[index] + chance.randrange(4, 36), ends[index] - chance.randrange(1, 20))
        found = steps(write_log(tmp_path, [log], file_size=len(log)), stop=len(log))
        assert [begin for begin, _, is_record in found if is_record] == [starts[i] for i in range(12) if i not in torn]
        assert [begin for begin, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]
        assert found[-1][1] == len(log)


def test_a_record_torn_at_the_very_end_waits_and_is_read_once_it_is_there(tmp_path):
    last = RecordIdentity(118, STORE_MS, SIZE)
    for missing in range(1, SIZE):
        waiting = 0 if SIZE - missing < 4 else 1  # the three leading bytes of a size are zeros anyway
        assert end_of(write_log(tmp_path, [THREE[: 354 - missing]])) == LogEnd(236, last, waiting), missing
    assert end_of(write_log(tmp_path, [THREE])) == LogEnd(354, RecordIdentity(236, STORE_MS, SIZE), 0)


def test_the_log_ends_behind_its_last_complete_record(tmp_path):
    two = RecordIdentity(118, STORE_MS, SIZE)
    three = RecordIdentity(236, STORE_MS, SIZE)
    body = 90
    for why, log, expected in [
        ("all good", THREE, LogEnd(354, three, 0)),
        ("blank behind", THREE + blank(354), LogEnd(354, three, 0)),
        ("last body not there yet", flipped(THREE, 236 + body), LogEnd(236, two, 1)),
        (
            "last two bodies",
            flipped(flipped(THREE, 236 + body), 118 + body),
            LogEnd(118, RecordIdentity(0, STORE_MS, SIZE), 2),
        ),
        ("end of the last properties not there yet", zeroed(THREE, 350, 354), LogEnd(236, two, 1)),
        ("a wrong CRC inside", flipped(THREE, 118 + body), LogEnd(354, three, 0)),
        ("a torn one inside", zeroed(THREE, 130, 200), LogEnd(354, three, 0)),
        (
            "torn, then one without its body",
            flipped(zeroed(THREE, 130, 200), 236 + body),
            LogEnd(118, RecordIdentity(0, STORE_MS, SIZE), 2),
        ),
        ("only a torn one", THREE[:100], LogEnd(0, None, 1)),
        ("nothing", b"", LogEnd(0, None, 0)),
    ]:
        assert end_of(write_log(tmp_path, [log])) == expected, why
    assert log_end(()) == LogEnd(0, None, 0)


def test_files_allocated_ahead_do_not_move_the_end(tmp_path):
    full = THREE + blank(354)
    last = RecordIdentity(236, STORE_MS, SIZE)
    later = encode_records(FILE_SIZE, 1)
    for why, contents, expected in [
        ("two allocated ahead", [full, b"", b""], LogEnd(354, last, 0)),
        ("torn in the first of them", [full, later[:60], b""], LogEnd(354, last, 1)),
        ("torn before them", [THREE[:300], b"", b""], LogEnd(236, RecordIdentity(118, STORE_MS, SIZE), 1)),
        ("written in the first of them", [full, later, b""], LogEnd(4214, RecordIdentity(4096, STORE_MS, SIZE), 0)),
    ]:
        assert end_of(write_log(tmp_path, contents)) == expected, why


def test_from_a_known_boundary_only_what_follows_is_looked_at(tmp_path):
    store = write_log(tmp_path, [zeroed(THREE, 0, 118) + blank(354), encode_records(FILE_SIZE, 2), b""])
    last = RecordIdentity(4214, STORE_MS, SIZE)
    assert end_of(store, 236) == LogEnd(4332, last, 0)
    assert end_of(store, 4214) == LogEnd(4332, last, 0)
    assert end_of(store, 4332) == LogEnd(4332, None, 0)
    assert end_of(store, 90_000) == LogEnd(90_000, None, 0)


def test_a_record_is_known_again_by_its_store_time_and_size(tmp_path):
    store = write_log(tmp_path, [THREE, encode_record(FILE_SIZE, body=b"longer", store_ms=STORE_MS + 5)])
    files = list_files(str(store)).files
    assert record_at(files, 118) == RecordIdentity(118, STORE_MS, 118)
    assert record_at(files, 4096) == RecordIdentity(4096, STORE_MS + 5, 119)
    assert [record_at(files, offset) for offset in (117, 354, 4095, 4097, 8192, 10**12)] == [None] * 6


def test_a_gigabyte_never_written_costs_no_time(tmp_path):
    store = write_log(tmp_path, [THREE], file_size=1 << 30)
    begun = time.perf_counter()
    assert end_of(store).offset == 354
    assert steps(store, stop=1 << 30)[-1] == (354, 1 << 30, False)
    assert time.perf_counter() - begun < 1


def test_zeros_that_are_really_stored_are_passed_over_too(tmp_path):
    store = write_log(tmp_path, [THREE + bytes(3_000_000) + encode_record(3_000_354)], file_size=4_000_000)
    assert end_of(store).offset == 3_000_472
    assert steps(store, 236, 3_000_472) == [(236, 354, True), (354, 3_000_354, False), (3_000_354, 3_000_472, True)]


def test_a_file_that_went_before_it_was_read_is_no_part_of_what_was_read(tmp_path):
    store = str(write_log(tmp_path, [THREE + blank(len(THREE)), THREE + blank(len(THREE)), THREE]))
    whole = stretches(list_files(store).files, 0, 2 * FILE_SIZE + 10, [SIZE])
    assert [(each.start, each.stop) for each in whole] == [
        (0, SIZE),
        (SIZE, FILE_SIZE),
        (FILE_SIZE, 2 * FILE_SIZE),
        (2 * FILE_SIZE, 2 * FILE_SIZE + 10),
    ]
    Path(store, "commitlog", f"{0:020d}").unlink()
    with pytest.raises(InputError, match="its broker has removed it meanwhile"):
        stretches(list_files(store).files, 0, 2 * FILE_SIZE + 10, [])
