"""The notebook is executed: its cells one after the other in this process, and by Jupyter's own client with a kernel."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from views.conftest import empty_tables, txmq, txmq_as_it_is, warehouse  # noqa: F401 - fixtures
from views.report_rows import rows

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks" / "stuck-transactions.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CLIENT = """
import sys, nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(book, timeout=120).execute()
print(sum(bool(cell.get("outputs")) for cell in book.cells))
"""


def shown(source: str, names: dict) -> object:
    """What a cell shows: the value of its last expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_its_cells_run_one_after_the_other_and_show_what_there_is(warehouse, monkeypatch):  # noqa: F811
    monkeypatch.setenv("TXMQ_WAREHOUSE", warehouse(rows("GID_PAY")))
    names: dict = {}
    found = [shown("".join(cell["source"]), names) for cell in CELLS if cell["cell_type"] == "code"]
    opened, verdicts, stuck, story, figures, ran = found
    assert repr(opened).startswith("Txmq(")
    assert dict(verdicts)["DISCARDED"] == 1
    assert ("DISCARDED1", "DISCARDED", "GID_PAY") in stuck
    assert story
    assert {row["verdict"]: row["transactions"] for row in figures}["CONFLICT"] == 1
    assert ran == []


def test_it_is_kept_without_what_it_showed():
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.real
def test_jupyter_executes_it(warehouse, tmp_path):  # noqa: F811
    packages = tmp_path / "packages"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        packages,
        "nbclient==0.11.0",
        "ipykernel==7.4.0",
    ]
    subprocess.run(install, check=True, timeout=300)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}",
        "TXMQ_WAREHOUSE": warehouse(rows("GID_PAY")),
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", CLIENT, NOTEBOOK]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "6\n"), ended.stderr
