"""What a landing pass takes from a process that may still be at work: every append of its plan, and no table beyond it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from txmq_lib.pipeline.land import landing_pass

OF_A_STORE = {
    "half_message",
    "op_message",
    "message",
    "trans_check_max_time",
    "end_trace",
    "consumer_offset_commit",
}


def appends_of(kind: str, tables: set[str]) -> set[str]:
    plan = SimpleNamespace(arguments={"kind": kind}, input_versions=dict.fromkeys(tables, 1))
    return {table for table, _ in landing_pass._appends(plan)}


@pytest.mark.parametrize("kind", ["store", "rocketmq"])
def test_every_append_of_a_plan_is_taken_but_none_of_a_table_that_its_version_did_not_have(kind):
    assert appends_of(kind, OF_A_STORE | {"pass"}) == OF_A_STORE
    assert appends_of(kind, OF_A_STORE - {"end_trace"}) == OF_A_STORE - {"end_trace"}


def test_a_landing_of_files_takes_what_its_kind_appends():
    assert appends_of("half", OF_A_STORE) == {"half_message"}
    assert appends_of("offset", OF_A_STORE) == {"consumer_offset_commit"}
