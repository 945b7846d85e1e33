"""What the statistics of a file rule out, and that they rule out nothing that is there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from txmq_lib.delta.log_actions import file_of
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import LocalFolder

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def a_file(statistics: str):
    return file_of({"path": "part.parquet", "size": 1, "stats": statistics})


@given(
    st.lists(st.integers(-50, 50), min_size=1),
    st.lists(st.tuples(st.integers(-60, 60), st.integers(0, 9)), max_size=3),
)
def test_a_file_is_passed_over_where_no_value_of_it_can_be_in_a_range(values, starts):
    ranges = [(low, low + length) for low, length in starts]
    file = a_file(json.dumps({"numRecords": 9, "minValues": {"n": min(values)}, "maxValues": {"n": max(values)}}))
    is_needed = any(low <= value <= high for value in values for low, high in ranges)
    is_apart = all(high < min(values) or max(values) < low for low, high in ranges)
    assert file.may_hold("n", ranges) == (not is_apart) >= is_needed


@pytest.mark.parametrize(
    "statistics",
    [
        "",
        "{}",
        '{"numRecords": 2}',
        '{"minValues": {"n": 100}}',
        '{"minValues": {"n": 100}, "maxValues": {}, "nullCount": {"n": 1}, "numRecords": 2}',
        '{"minValues": {"n": 100.5}, "maxValues": {"n": 200.5}}',
        '{"minValues": {"n": true}, "maxValues": {"n": true}}',
        '{"minValues": {"n": "2026-01-01"}, "maxValues": {"n": "2026-01-02T00:00:00"}}',
        '{"minValues": {"n": {"m": 100}}, "maxValues": {"n": {"m": 100}}, "nullCount": {"n": {"m": 0}}}',
        '{"minValues": {"other": 100}, "maxValues": {"other": 100}}',
    ],
)
def test_what_statistics_do_not_tell_may_be_anything(statistics):
    assert a_file(statistics).may_hold("n", [(1, 2)])


def test_where_all_is_null_nothing_is_found():
    statistics = '{"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"n": 2, "m": 1}}'
    assert not a_file(statistics).may_hold("n", [(-(2**63), 2**63 - 1)])
    assert a_file(statistics).may_hold("m", [(1, 2)])


@pytest.mark.parametrize("zone", ["UTC", "+05:30"])
@pytest.mark.parametrize("before", [EPOCH - timedelta(days=400), EPOCH + timedelta(days=20_000)])
def test_moments_are_known_to_the_millisecond(tmp_path: Path, before, zone):
    moments = [before + timedelta(microseconds=each) for each in (0, 1_001, 86_400_000_999)]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))})
    write_deltalake(str(tmp_path), table)
    (file,) = LogEntries(LocalFolder(str(tmp_path))).plain_files(0, 0) or ()
    first, last = [(each - EPOCH) // timedelta(milliseconds=1) for each in (moments[0], moments[-1])]
    assert file.may_hold("t", [(first, first)])
    assert file.may_hold("t", [(last, last)])
    assert not file.may_hold("t", [(first - 9, first - 1), (last + 1, last + 9)])
