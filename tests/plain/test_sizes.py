"""No function is longer than a thought, and a module longer than a few screens has its reason here."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LIBRARY = TESTS.parent / "txmq_lib"
MODULE_LINES, FUNCTION_LINES = 250, 40

# Each stays whole since to read a part of it one needs the rest. What grows here is cut, not added.
REASONS = {
    "cli/run/endpoint.py": "what the server answers, path by path, and the bounds of one request",
    "cli/run/status.py": "one screen, in the order in which it is printed",
    "names.py": "the one place where a name on the wire or in a table is spelt",
    "passes/writer.py": "the ways to write once, which all go through one gate at its end",
    "pipeline/land/live/broker_plan.py": "what one look at a live broker fixes: its queues, and what it says of itself",
    "pipeline/land/records/messages.py": "records of every kind take one way, whichever source decoded them",
    "pipeline/land/records/record_rows.py": "each table's columns, and what makes a record doubtful, side by side",
    "rocketmq/store/commit_log.py": "the files of a log and the walk over one of them, which share what a file is",
    "rules/proof.py": "what proves a rollback: every kind of proof beside what puts it in doubt",
    "rules/end.py": "how a broker takes an end, case by case in its order",
    "views/advice.py": "what each verdict and reason means and asks for: a list of texts",
    "views/select.py": "a view's SQL from its filters, and what may be asked of it",
}


VAGUE = {"told", "given", "wanted", "sought", "asked"}
# When brokers were asked, how many checks were, and what each command of a page printed: fields.
FIELDS_OF_ROWS = {"views/connected.py: asked", "views/figures.py: asked", "tests/support/pages.py: told"}


def sources(folder: Path = LIBRARY) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        yield str(path.relative_to(folder)), path.read_text(encoding="utf-8")


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its name to its end, without its docstring."""
    own = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    return own if ast.get_docstring(function) is None else own - ((first.end_lineno or 0) - first.lineno + 1)


def test_a_long_module_has_its_reason():
    lines = {name: len(text.splitlines()) for name, text in sources()}
    assert {name for name, count in lines.items() if count > MODULE_LINES} <= REASONS.keys()
    assert [name for name in REASONS if lines.get(name, 0) <= MODULE_LINES] == [], "they need no reason any more"


def test_no_function_is_longer_than_forty_lines():
    functions = [
        (f"{name} {node.name}", lines_of(node))
        for name, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1_000
    assert {place: count for place, count in functions if count > FUNCTION_LINES} == {}


def vague_names(text: str) -> set[str]:
    return {
        node.id if isinstance(node, ast.Name) else node.arg
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.arg) and node.arg in VAGUE)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE)
    }


def test_a_variable_says_what_it_holds():
    texts = {**dict(sources()), **{f"tests/{name}": text for name, text in sources(TESTS)}}
    found = {f"{name}: {vague}" for name, text in texts.items() for vague in vague_names(text)}
    assert found - FIELDS_OF_ROWS == set()


def test_no_two_modules_of_tests_have_one_name():
    """pytest collects none of a folder that holds two of a name: `make test-real` takes them all."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert {name for name, count in names.items() if count > 1} == set()
