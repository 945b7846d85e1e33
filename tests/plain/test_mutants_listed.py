"""Every mutant still has the one place in the code that it breaks, by name."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = runpy.run_path(str(ROOT / "tests" / "mutants" / "listed.py"))["MUTANTS"]
place_of = runpy.run_path(str(ROOT / "tests" / "mutants" / "places.py"))["place_of"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_what_a_mutant_breaks_is_there_once(mutant):
    assert place_of(ROOT / "txmq_lib", mutant.place).text().count(mutant.old) == 1


def test_a_name_that_several_places_have_needs_its_module(tmp_path: Path):
    for room, text in {
        "a": "def judged():\n    return 1\n",
        "b": "class K:\n    def m(self):\n        return 2\n",
    }.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "rules.py").write_text(f"FEW = 3\n\n\n{text}", encoding="utf-8")
    with pytest.raises(LookupError, match="2 places are named FEW"):
        place_of(tmp_path, "FEW")
    with pytest.raises(LookupError, match="0 places are named nobody"):
        place_of(tmp_path, "nobody")
    assert place_of(tmp_path, "a.rules.FEW").text() == "FEW = 3\n"
    method = place_of(tmp_path, "K.m")
    assert (method.text(), method.file) == ("    def m(self):\n        return 2\n", tmp_path / "b" / "rules.py")
    assert method.with_text("    m = 4\n") == "FEW = 3\n\n\nclass K:\n    m = 4\n"
