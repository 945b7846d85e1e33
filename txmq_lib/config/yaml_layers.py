"""Layers of settings: YAML files and assignments read into plain mappings, merged in order. Judges no value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Tree = dict[str, Any]
KeyPath = tuple[str, ...]
MOST_VALUES = 100_000  # of one file; YAML's aliases make billions of a few lines
_NAME = re.compile(r"^[\w.-]*")  # what is behind it may be a secret
_QUOTED = re.compile(r""" ("[^"]{2,}"|'(?!<)[^']{2,}')""")  # so may be what YAML repeats, but for signs of its own
# PyYAML raises these where a tag (`!!timestamp`, `!!bool`, `!!int`) stands before something else.
_UNLIKE_ITS_TAG = (AttributeError, LookupError)
_UNREADABLE = (yaml.YAMLError, ValueError, OverflowError, RecursionError, *_UNLIKE_ITS_TAG)
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Layer:
    """One source of settings: the name people know it by, its values, and what is wrong with its text."""

    name: str
    values: Tree
    faults: tuple[str, ...] = ()


def read_file(path: Path, name: str) -> Layer:
    """A YAML file as a layer; what cannot be read or is given twice becomes a fault, never an exception."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        return Layer(name, {}, (f"{name}: cannot be read: {error.strerror}",))
    except UnicodeDecodeError as error:
        return Layer(name, {}, (f"{name}: is not UTF-8 at byte {error.start}",))
    try:
        node = _composed(text)
        repeated = tuple(f"{name}: {fault}" for fault in _repeated_keys(node))
        values = _constructed(node)
    except _UNREADABLE as error:
        return Layer(name, {}, (f"{name}: is not valid YAML: {_yaml_problem(error)}",))
    if values is None:
        return Layer(name, {}, repeated)
    if not isinstance(values, dict):
        return Layer(name, {}, (f"{name}: must hold `key: value` lines, not a {type(values).__name__}",))
    return Layer(name, values, repeated)


def read_assignment(assignment: str) -> Layer:
    """`key=value` with dots in the key and YAML in the value, as a layer of its own."""
    key, equals, text = assignment.partition("=")
    path = _split(key.strip())
    name = "--set"
    if not equals or not all(path) or _HALF_A_PAIR.search(key):
        shown = "".join(_NAME.findall(key))
        fault = f"{name} {shown}: must look like key=value, with dots between nested keys"
        return Layer(name, {}, (fault,))
    try:
        value = _constructed(_composed(text))
    except _UNREADABLE as error:
        return Layer(name, {}, (f"{name}: {key}: is not valid YAML: {_yaml_problem(error)}",))
    for part in reversed(path):
        value = {part: value}
    return Layer(name, value)


def _split(key: str) -> list[str]:
    parts = key.split(".")
    match parts:
        case ["spark", _, *_]:  # Spark's own names have dots
            return ["spark", ".".join(parts[1:])]
        case ["brokers" | "resolvers", _, _, _, *_]:  # and so may the name of a broker or a producer group
            return [parts[0], ".".join(parts[1:-1]), parts[-1]]
        case _:
            return parts


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """`above` over `below`: mappings key by key, everything else whole; a section left empty sets nothing."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, dict) and value is None:
            continue
        if isinstance(under, list) and value is None:
            merged[key] = []
        elif isinstance(under, dict) and isinstance(value, dict):
            merged[key] = merge(under, value)
        else:
            merged[key] = value
    return merged


def leaves(values: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is no mapping, and every empty mapping, with its path."""
    for key, value in values.items():
        path = (*above, str(key))
        if isinstance(value, dict) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def origins(layers: Sequence[Layer]) -> dict[KeyPath, str]:
    """Which layer set each value: the last one that names it."""
    return {path: layer.name for layer in layers for path, _ in leaves(layer.values)}


def _composed(text: str) -> yaml.Node | None:
    """The text as nodes; ValueError where it has what is no text, or aliases for more values than anybody means."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is not None and _value_count(node, {}) > MOST_VALUES:
        raise ValueError(f"it stands for more than {MOST_VALUES} values: write fewer aliases")
    return node


def _constructed(node: yaml.Node | None) -> Any:  # noqa: ANN401 - whatever the text holds
    """The values that the nodes stand for, as `yaml.safe_load` has them of the text."""
    return None if node is None else yaml.SafeLoader("").construct_document(node)


def _value_count(node: yaml.Node, known: dict[int, int | None]) -> int:
    """How many values a node stands for, its aliases followed; each node is counted once. ValueError for no text."""
    if id(node) not in known:
        known[id(node)] = None
        pairs = node.value if isinstance(node, yaml.CollectionNode) else []
        below = [each for pair in pairs for each in (pair if isinstance(pair, tuple) else (pair,))]
        if isinstance(node, yaml.ScalarNode) and _HALF_A_PAIR.search(node.value):
            raise ValueError(f"line {node.start_mark.line + 1}: half of a surrogate pair is no text")
        known[id(node)] = 1 + sum(_value_count(each, known) for each in below)
    count = known[id(node)]
    if count is None:
        raise ValueError(f"line {node.start_mark.line + 1}: an alias refers to what it is part of")
    return count


def _repeated_keys(node: yaml.Node | None, above: str = "") -> Iterator[str]:
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            yield from _repeated_keys(item, f"{above}[{place}]")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # no key that YAML is loaded with: the loader says so
            path = f"{above}.{key.value}".lstrip(".")
            if key.value in seen:
                yield f"{path}: is given twice, again in line {key.start_mark.line + 1}"
            seen.add(key.value)
            yield from _repeated_keys(value, path)


def _yaml_problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {_QUOTED.sub('', str(error.problem))}"
    if isinstance(error, _UNLIKE_ITS_TAG):
        return "a value is not what its tag says"
    return re.split(r":? ['\"]", str(error).replace("\n", " "), maxsplit=1)[0] or type(error).__name__
