"""How long a broker's own check cursor has stood where it is (R36, R38, R131)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from moment import NOW as NOON

from txmq_lib.rules.cursors import Cursor, Place, followed, longest_stand_ms, with_passed

LIMITS = {"transaction_timeout_ms": 6_000, "transaction_check_interval_ms": 30_000}
STOOD = Cursor(0, 17, 3, NOON, NOON + timedelta(minutes=1), 2, 6_000, 120_000)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_a_cursor_that_was_never_read_before_has_stood_for_no_time():
    assert followed([], {0: Place(17, 3)}, NOON, **LIMITS) == [Cursor(0, 17, 3, NOON, NOON, 1, 6_000, 120_000)]


@pytest.mark.parametrize(
    ("half_offset", "read_at", "expected"),
    [
        (17, at(5), replace(STOOD, last_seen_timestamp=at(5), landings=3)),
        (18, at(5), replace(STOOD, half_offset=18, first_seen_timestamp=at(5), last_seen_timestamp=at(5), landings=1)),
        (16, at(5), replace(STOOD, half_offset=16, first_seen_timestamp=at(5), last_seen_timestamp=at(5), landings=1)),
        (None, at(5), replace(STOOD, half_offset=None, first_seen_timestamp=at(5), last_seen_timestamp=at(5), landings=1)),
        (17, at(1), STOOD),
        (18, at(0.5), STOOD),
    ],
    ids=["stands", "moved", "went back", "gone", "the same table again", "an older table"],
)  # fmt: skip
def test_a_cursor_stands_while_later_readings_find_it_where_it_was(half_offset, read_at, expected):
    assert followed([STOOD], {0: Place(half_offset, 3)}, read_at, **LIMITS) == [expected]


def test_a_cursor_that_the_broker_does_not_have_yet_stands_as_well():
    first = followed([], {0: Place(None, None)}, NOON, **LIMITS)
    (later,) = followed(first, {0: Place(None, None)}, at(5), **LIMITS)
    assert (later.half_offset, later.first_seen_timestamp, later.landings) == (None, NOON, 2)


def test_the_op_cursor_may_move_or_stand_by_itself():
    """R58: one half that is not done with holds it up for as long as that takes."""
    (found,) = followed([STOOD], {0: Place(17, 9)}, at(5), **LIMITS)
    assert (found.op_offset, found.first_seen_timestamp, found.landings) == (9, NOON, 3)


def test_it_may_stand_for_two_rounds_each_of_which_looks_at_every_queue_for_a_minute():
    assert (longest_stand_ms(30_000, 1), longest_stand_ms(30_000, 4), longest_stand_ms(3_000, 1)) == (
        120_000, 300_000, 66_000,
    )  # fmt: skip
    found = followed([STOOD], {0: Place(17, 3), 1: Place(4, 0)}, at(5), **LIMITS)
    assert [(cursor.queue_id, cursor.longest_stand_ms) for cursor in found] == [(0, 180_000), (1, 180_000)]


def test_limits_that_are_corrected_hold_for_what_was_read_before():
    (found,) = followed(
        [STOOD], {0: Place(17, 3)}, at(1), transaction_timeout_ms=9_000, transaction_check_interval_ms=60_000
    )
    assert found == replace(STOOD, transaction_timeout_ms=9_000, longest_stand_ms=180_000)


@pytest.mark.parametrize(
    ("known", "half_offset", "passed", "expected"),
    [
        (None, 17, 15, 15),
        (None, 17, None, None),
        (None, 14, 15, 14),
        (12, 20, 17, 17),
        (12, 20, None, 12),
        (12, 9, None, 9),
        (12, 9, 11, 9),
        (12, None, None, None),
    ],
    ids=["read first", "no halves were read with it", "it went back meanwhile", "it went on", "offsets alone were read",
         "it went back, and looks again", "it went back while they were read", "the broker has none any more"],
)  # fmt: skip
def test_what_a_cursor_has_passed_is_known_by_a_landing_that_read_the_halves_after_it(
    known, half_offset, passed, expected
):
    before = [] if known is None else [replace(STOOD, passed_offset=known)]
    stood = {} if passed is None else {0: passed}
    (found,) = followed(before, {0: Place(half_offset, 3)}, at(5), **LIMITS, passed=stood)
    assert found.passed_offset == expected


@pytest.mark.parametrize(
    ("known", "half_offset", "passed", "expected"),
    [(None, 17, 15, 15), (12, 17, 15, 15), (12, 14, 15, 14), (12, 17, 9, 9), (12, 17, None, 12), (12, None, 15, None)],
    ids=["first", "went on", "the table is older", "went back", "not known", "the broker has none"],
)  # fmt: skip
def test_halves_that_are_read_without_the_table_of_offsets_tell_what_was_passed_and_not_how_long_it_stands(
    known, half_offset, passed, expected
):
    cursor = replace(STOOD, half_offset=half_offset, passed_offset=known)
    stood = {3: 99} if passed is None else {0: passed}
    assert with_passed([cursor], stood) == [replace(cursor, passed_offset=expected)]
