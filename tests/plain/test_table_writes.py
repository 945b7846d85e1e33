"""A pass writes a table in the ways that its spec states, and in no other."""

from __future__ import annotations

from typing import Any, cast

import pytest
from moment import NOW

from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import WRITES, table_specs
from txmq_lib.errors import InvariantViolation
from txmq_lib.passes.current import Pass

UNSTATED = [(name, write) for name, spec in table_specs().items() for write in WRITES if write not in spec.writes]


@pytest.mark.parametrize(("table", "write"), UNSTATED)
def test_a_write_that_a_spec_does_not_state_is_refused_before_anything_is_looked_at(table: str, write: str):
    nothing = cast(Any, None)  # neither a warehouse nor rows: nobody may ask for them
    current = Pass(
        warehouse=nothing, job="audit", number=1, now=NOW, input_versions={}, since_versions={}, arguments={},
        settings=Settings.load(), is_own=True, wall_clock=lambda: NOW,
    )  # fmt: skip
    with pytest.raises(InvariantViolation, match=f"{table} is not written by {write}"):
        getattr(current, write)(table, nothing, step="s")


def test_ends_are_the_one_table_with_a_part_that_is_written_anew():
    both = [name for name, spec in table_specs().items() if len(spec.writes) > 1]
    assert both == ["end_outcome"]  # those held are a partition of their own, rewritten when it changes
