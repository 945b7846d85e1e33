"""Every mutant still has the one place in the code that it breaks."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = runpy.run_path(str(ROOT / "tests" / "mutants" / "listed.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_what_a_mutant_breaks_is_there_once(mutant):
    assert (ROOT / "txmq_lib" / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
