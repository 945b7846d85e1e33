"""The bounds of queues, from a capture's consume queues and from hand-made ones."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from captured import CAPTURE_NAMES, unpack_store
from truth import rows as capture_rows

from txmq_lib.rocketmq.store.consume_queue import QueueBounds, dispatched_to, queue_bounds

END_OF_LOG = 10**9
PREFILL = (0, 0x7FFFFFFF, 0)
UNWRITTEN = (0, 0, 0)


def write_queue(store: Path, files: dict[int, list[tuple[int, int, int]]], topic: str = "T", queue_id: int = 0) -> Path:
    """Consume queue files by the queue offset of their first entry."""
    directory = store / "consumequeue" / topic / str(queue_id)
    directory.mkdir(parents=True)
    for first, entries in files.items():
        (directory / f"{first * 20:020d}").write_bytes(b"".join(struct.pack(">qiq", *entry) for entry in entries))
    return store


def bounds(store: Path, lowest: int = 0, end: int = END_OF_LOG) -> dict[tuple[str, int], QueueBounds]:
    return queue_bounds(str(store), lowest_commit_log_offset=lowest, end_commit_log_offset=end)


@pytest.mark.parametrize("capture", CAPTURE_NAMES)
def test_a_captures_queues_end_where_its_clients_saw_them_end(capture, tmp_path):
    found = bounds(unpack_store(capture, tmp_path))
    seen: dict[tuple[str, int], int] = {}
    for kind in ("half", "op", "visible", "max_time"):
        for row in capture_rows(capture, kind):
            seen[row["topic"], row["queueId"]] = int(row["properties"]["MAX_OFFSET"])
    assert len(seen) >= 10
    assert {key: found[key] for key in seen} == {key: QueueBounds(0, maximum) for key, maximum in seen.items()}
    assert {topic for topic, _ in set(found) - set(seen)} <= {"rmq_sys_wheel_timer"}


def test_bounds_follow_from_which_part_of_the_log_is_there(tmp_path):
    def entries(first: int) -> list[tuple[int, int, int]]:
        return [(100 * offset, 100, -5) for offset in range(first, first + 10)]

    two_files = {20: entries(20), 30: [*entries(30)[:4], *[UNWRITTEN] * 6]}
    prefilled = {0: [*[PREFILL] * 3, *entries(3)[:2], *[UNWRITTEN] * 5]}
    for number, (why, files, lowest, end, expected) in enumerate(
        [
            ("all of it", two_files, 0, END_OF_LOG, QueueBounds(20, 34)),
            ("older files deleted", two_files, 2500, END_OF_LOG, QueueBounds(25, 34)),
            ("a base inside a message", two_files, 2501, END_OF_LOG, QueueBounds(26, 34)),
            ("in the second file", two_files, 3100, END_OF_LOG, QueueBounds(31, 34)),
            ("nothing left", two_files, 3400, END_OF_LOG, QueueBounds(34, 34)),
            ("up to an earlier end", two_files, 0, 2900, QueueBounds(20, 29)),
            ("stale entries behind the end", two_files, 0, 3300, QueueBounds(20, 33)),
            ("filled up ahead", prefilled, 0, END_OF_LOG, QueueBounds(3, 5)),
            ("only filled up", {0: [*[PREFILL] * 4, *[UNWRITTEN] * 2]}, 0, END_OF_LOG, QueueBounds(4, 4)),
            ("never written", {0: [UNWRITTEN] * 10}, 0, END_OF_LOG, QueueBounds(0, 0)),
            ("full to the last entry", {0: entries(0)}, 0, END_OF_LOG, QueueBounds(0, 10)),
            ("next file allocated ahead", {0: entries(0), 10: [UNWRITTEN] * 10}, 0, END_OF_LOG, QueueBounds(0, 10)),
            ("no file at all", {}, 0, END_OF_LOG, QueueBounds(0, 0)),
        ]
    ):
        store = write_queue(tmp_path / str(number), files)
        assert bounds(store, lowest, end) == {("T", 0): expected}, why


def test_the_queue_that_got_furthest_tells_up_to_where_the_log_was_dispatched(tmp_path):
    assert dispatched_to(str(tmp_path), end_commit_log_offset=END_OF_LOG) == 0
    write_queue(tmp_path, {0: [*[PREFILL] * 2, (100, 50, 1), (400, 70, 1), UNWRITTEN]})
    write_queue(tmp_path, {0: [(150, 250, 1), UNWRITTEN]}, queue_id=1)
    write_queue(tmp_path, {0: [PREFILL, UNWRITTEN]}, queue_id=2)
    write_queue(tmp_path, {}, queue_id=3)
    # From behind the last record of queue 0 to before that of queue 1.
    ends = {END_OF_LOG: 470, 401: 470, 400: 400, 150: 150, 100: 0}
    assert {end: dispatched_to(str(tmp_path), end_commit_log_offset=end) for end in ends} == ends


def test_what_is_no_queue_is_passed_over(tmp_path):
    assert bounds(tmp_path) == {}
    store = write_queue(tmp_path, {0: [(5, 100, 1), UNWRITTEN]}, topic="%RETRY%g", queue_id=3)
    (store / "consumequeue" / "notes.txt").touch()
    (store / "consumequeue" / "%RETRY%g" / "lock").mkdir()
    (store / "consumequeue" / "%RETRY%g" / "3" / "00000000000000000000.tmp").touch()
    (store / "consumequeue" / "%RETRY%g" / "3" / "00000000000000000020").mkdir()
    (store / "consumequeue" / "%RETRY%g" / "3" / "99999999999999999999").touch()
    for queue in ("2147483648", "99999999999", "\u0663", "-1"):
        (store / "consumequeue" / "%RETRY%g" / queue).mkdir()
    os.makedirs(os.path.join(os.fsencode(store), b"consumequeue", b"\xff", b"0"))
    assert bounds(store) == {("%RETRY%g", 3): QueueBounds(0, 1)}
