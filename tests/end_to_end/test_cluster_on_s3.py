"""The cluster of the fault matrix, whose warehouse is on a real S3 server."""

from __future__ import annotations

from pathlib import Path

import cluster
import pytest

pytestmark = [pytest.mark.real, pytest.mark.long]


def test_every_job_bears_a_worker_that_goes_down_and_reconcile_its_driver(tmp_path: Path):
    downs = cluster.run(tmp_path / "faults")
    assert downs.is_sound, downs.notes
    assert {down.partition(": ")[0] for down in downs.jobs} == {"worker", "driver"}
