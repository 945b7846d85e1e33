"""A short part of the fault matrix (make faults runs it whole): real driver processes killed in the middle of their work."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix import Matrix
from scenario import SHORT

pytestmark = pytest.mark.jobs


@pytest.mark.long
def test_a_process_killed_before_and_after_its_plan_leaves_what_an_undisturbed_run_leaves(tmp_path: Path):
    matrix = Matrix(tmp_path, SHORT)
    assert all(matrix.expected[table] for table in ("half_message", "end_outcome", "message", "pending_half"))
    at_writes = matrix.killed_at_every_write(most=2)
    assert (at_writes.times, at_writes.rows_lost, at_writes.rows_twice) == (2, 0, 0), at_writes.notes
