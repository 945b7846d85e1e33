"""A short part of `make mutants`: two rules broken on purpose, in a copy, and the tests that see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.jobs


def test_a_broken_rule_is_seen_by_its_tests():
    command = [sys.executable, "tests/mutants", "--only", "lenient_json.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 of 2 mutants killed"), done.stdout + done.stderr
