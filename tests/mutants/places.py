"""Where a mutant's function stands: by its name, whatever file it is in and whatever it is called beside it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """The text of one function, class or constant: a file, and from where to where in it."""

    file: Path
    begin: int
    end: int

    def text(self) -> str:
        """What stands there now."""
        return self.file.read_text(encoding="utf-8")[self.begin : self.end]

    def with_text(self, text: str) -> str:
        """The whole file with other text in this place."""
        whole = self.file.read_text(encoding="utf-8")
        return whole[: self.begin] + text + whole[self.end :]


def place_of(library: Path, name: str) -> Place:
    """The one place of a name: `function`, `Class.method` or `CONSTANT`; where several have it, behind `module.`.

    Behind `room.module.` where that is not enough. SQL has no functions: `lag.sql` is one place.

    LookupError where there is none, or more than one.
    """
    found = _places(library).get(name, [])
    if len(found) != 1:
        raise LookupError(f"{len(found)} places are named {name}")
    return found[0]


@cache
def _places(library: Path) -> dict[str, list[Place]]:
    named: defaultdict[str, list[Place]] = defaultdict(list)
    for file in sorted(library.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        # Columns of a syntax tree count bytes; names and texts that matter here begin and end a line.
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for own, node in _nodes(ast.parse(text)):
            first = min([node.lineno, *[each.lineno for each in getattr(node, "decorator_list", ())]])
            place = Place(file, starts[first - 1], starts[node.end_lineno or first])
            for name in (own, f"{file.stem}.{own}", f"{file.parent.name}.{file.stem}.{own}"):
                named[name].append(place)
    for file in library.rglob("*.sql"):
        named[file.name].append(Place(file, 0, len(file.read_text(encoding="utf-8"))))
    return dict(named)


def _nodes(tree: ast.Module) -> list[tuple[str, ast.stmt]]:
    found: list[tuple[str, ast.stmt]] = []
    for node in tree.body:
        found += [(name, node) for name in _names(node)]
        if isinstance(node, ast.ClassDef):
            found += [(f"{node.name}.{name}", each) for each in node.body for name in _names(each)]
    return found


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=targets):
            return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
