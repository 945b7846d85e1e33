"""The protocol of plans as models for Spin (claims.pml, take_back.pml): their steps are the code's, and no order breaks it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CODE = re.compile(r"code: (\S+) (\w+): (.+)")
MODELS = {
    "claims.pml": ("NO_CLAIM", "NO_OCCUPY", "BLIND", "NO_OCCUPY_BEGUN"),
    "take_back.pml": ("LOOK_FIRST", "NO_NOTE", "NO_LOOK"),
}
LINES = [
    pytest.param(*found.groups(), id=f"{model}-{found[2]}")
    for model in MODELS
    for found in CODE.finditer((HERE / model).read_text(encoding="utf-8"))
]
STEPS = {name for line in LINES for name in line.values[2].split()}


def calls(path: str, function: str) -> list[str]:
    """What a function calls of the protocol's steps, in the order of its text."""
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    (found,) = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == function]
    made = [node.func for node in ast.walk(found) if isinstance(node, ast.Call)]
    placed = sorted(
        (
            each.end_lineno,
            each.end_col_offset,
            each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", ""),
        )
        for each in made
    )
    return [name for *_, name in placed if name in STEPS]


@pytest.mark.parametrize(("path", "function", "steps"), LINES)
def test_the_steps_of_a_model_are_those_of_the_code(path, function, steps):
    assert calls(path, function) == steps.split()


def test_seeded_faults_are_in_the_models():
    for model, faults in MODELS.items():
        text = (HERE / model).read_text(encoding="utf-8")
        assert all(f"-D{fault}" in text and f"def {fault}\n" in text for fault in faults)


def searched(place: Path, model: str, *switches: str) -> tuple[int, int]:
    """What Spin finds in all orders of a model: violations, and how many states it looked at."""
    if shutil.which("spin") is None or shutil.which("gcc") is None:
        pytest.fail("Spin is not here: on Debian and Ubuntu, apt-get install spin gcc libc6-dev")
    subprocess.run(["spin", "-a", *switches, str(HERE / model)], cwd=place, check=True, capture_output=True)
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=place, check=True)
    # Without a depth that is enough Spin says so, and has not seen all.
    done = subprocess.run(["./pan", "-m1000000", "-w24"], cwd=place, check=True, capture_output=True, text=True)
    assert "max search depth too small" not in done.stdout
    errors, states = re.search(r"errors: (\d+)", done.stdout), re.search(r"(\d+) states, stored", done.stdout)
    assert errors is not None
    assert states is not None
    return int(errors[1]), int(states[1])


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "switches", "least"),
    [
        ("claims.pml", ["-DPROCESSES=2"], 50_000),
        ("claims.pml", ["-DPROCESSES=3"], 50_000_000),  # three minutes
        ("take_back.pml", [], 100_000),
    ],
)
def test_no_order_of_steps_loses_a_row_or_writes_it_twice(tmp_path, model, switches, least):
    violations, states = searched(tmp_path, model, *switches)
    assert violations == 0
    assert states > least


@pytest.mark.real
@pytest.mark.parametrize(("model", "fault"), [(model, fault) for model, faults in MODELS.items() for fault in faults])
def test_a_seeded_fault_is_found(tmp_path, model, fault):
    switches = [f"-D{fault}", *(["-DPROCESSES=2"] if model == "claims.pml" else [])]
    violations, _ = searched(tmp_path, model, *switches)
    assert violations > 0
