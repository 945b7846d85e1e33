"""Hostile bytes at every decoder that needs no JVM: a short part of `make fuzz`, and hypothesis where texts are free."""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow as pa
import pytest
from fuzz.broker_files import assert_offsets_fit
from fuzz.surfaces import SURFACES
from fuzz.tally import run
from hypothesis import given, settings
from hypothesis import strategies as st

from txmq_lib.config.settings import Settings
from txmq_lib.errors import SettingsError
from txmq_lib.rocketmq.store.consumer_offset_file import parse_consumer_offsets
from txmq_lib.rocketmq.store.message_format import read_body, read_frame
from txmq_lib.rocketmq.store.property_maps import property_maps

CASES = 150
BOUND = 10_000
ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=10,
)
quick = settings(max_examples=80, deadline=2000, derandomize=True, database=None)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_nothing_escapes(surface):
    tally = run(surface, CASES, seed=20261121)
    assert tally.tried >= CASES // surface.share
    assert tally.escapes == []


@quick
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_are_too_odd_for_a_frame(before, after):
    data = before + b"\xda\xa3\x20\xa7" + after
    for start in range(len(data)):
        read_frame(data, start, len(data))


@quick
@given(st.binary(max_size=2000), st.integers(0, 2**12 - 1))
def test_no_bytes_are_too_odd_for_a_body(stored, sys_flag):
    body, reason = read_body(stored, 0, sys_flag, BOUND)
    assert (body is None) == (reason is not None)
    assert body is None or len(body) <= BOUND


@quick
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x01\x02a")), max_size=5))
def test_no_text_is_too_odd_for_properties(texts):
    assert len(property_maps(pa.array(texts, pa.string()))) == len(texts)


@quick
@given(st.binary(max_size=300) | JSON.map(lambda table: json.dumps({"offsetTable": table}).encode()))
def test_no_document_is_too_odd_for_an_offset_table(document):
    assert_offsets_fit(parse_consumer_offsets(document))


@settings(quick, max_examples=40)
@given(st.sampled_from(["role", "land.topics", "brokers.b.role", "spark.spark.x", "thresholds.quarantined"]), JSON)
def test_no_value_is_too_odd_for_a_setting(key, value):
    with suppress(SettingsError):
        Settings.load(assignments=[f"{key}={json.dumps(value)}"])
