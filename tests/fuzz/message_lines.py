"""Lines of messages into Arrow, beside Spark: what is taken is as the contract says, whatever is written there."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
from fuzz import contract
from fuzz.hostile import damaged, number
from fuzz.landing import GOOD, MESSAGE, written

from txmq_lib.pipeline.land.files.large_lines import LANDING_SCHEMA
from txmq_lib.pipeline.land.files.line_blocks import Shape
from txmq_lib.pipeline.land.files.message_lines import new_shape, records_of

STORED_APART = ("MIN_OFFSET", "MAX_OFFSET")


def message_lines(chance: Random) -> int:
    """Lines of all kinds at once: anything, texts alone as properties, one number at an edge."""
    kinds = (lambda chance: written(chance, "message"), texts_alone, at_an_edge)
    lines = [chance.choice(kinds)(chance) for _ in range(40)]
    assert_as_told(lines)
    assert_each_as_told(lines)
    return len(lines)


def assert_each_as_told(lines: list[bytes]) -> int:
    """The same of each line among others that look like it: so that none is parsed with others that do not fit."""
    return sum(assert_as_told([line], shape_of(line)) for line in lines)


def shape_of(line: bytes) -> Shape:
    """What lines look like that have the names of this one."""
    shape = new_shape()
    try:
        fields = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return shape
    if isinstance(fields, dict) and isinstance(fields.get("properties"), dict):
        shape.learn(fields)
    return shape


def assert_as_told(lines: list[bytes], shape: Shape | None = None) -> int:
    """How many of them were taken; each is good by the contract in plain Python, and has the values that it tells."""
    records, _, places = records_of(batch(*lines), shape)
    for place, row in zip(places.tolist(), records.to_pylist(), strict=True):
        expected = contract.judged("message", lines[place])
        assert not expected.faults, lines[place]
        assert not expected.is_open, lines[place]
        said = {MESSAGE[name]: value for name, value in expected.row.items()}
        properties = said.pop("properties")
        kept = {name: value for name, value in dict(properties).items() if name and value and name not in STORED_APART}
        assert row["properties"] == sorted(kept.items())
        for name, value in said.items():
            held = row[name]
            assert (round(held.timestamp() * 1000) if name.endswith("_timestamp") else held) == value, name
    return len(places)


def texts_alone(chance: Random) -> bytes:
    """A line whose properties are texts; one in three damaged."""
    fields = GOOD["message"](chance)
    fields["properties"] = {name: held for name, held in fields["properties"].items() if isinstance(held, str)}
    text = json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return damaged(chance, text).replace(b"\n", b"?").replace(b"\r", b"?") if chance.random() < 0.3 else text


def at_an_edge(chance: Random) -> bytes:
    """A good line but for one number, which may be too small or too large."""
    fields = GOOD["message"](chance)
    fields["properties"] = {"KEYS": "k"}
    fields[chance.choice([name for name, held in fields.items() if type(held) is int])] = number(chance)
    return json.dumps(fields).encode()


def batch(*lines: str | bytes, **columns: list[Any]) -> pa.RecordBatch:
    """Lines as they are read from files; `columns` are other values than theirs."""
    held = [each.encode() if isinstance(each, str) else each for each in lines]
    rows = {
        "value": pa.array(held, pa.binary()).cast(pa.string(), safe=False),
        "source": [f"f:{place}" for place in range(len(held))],
        "position": list(range(len(held))),
        "reason": [None] * len(held),
        "detail": [None] * len(held),
        "long_body": [None] * len(held),
        **columns,
    }
    return pa.RecordBatch.from_arrays(
        [values if isinstance(values, pa.Array) else pa.array(values, LANDING_SCHEMA.field(name).type)
         for name, values in rows.items()],
        schema=LANDING_SCHEMA,
    )  # fmt: skip
