"""Lines of JSON that are alike, parsed together by Arrow's own reader. Must not know what the contract says of values.

That reader takes JSON and no more, each value as the type it is expected to have, no name that is not expected and none
twice. What it would not tell is looked for in the bytes before (`plain_lines`) and in what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from txmq_lib.spark.arrays import Numbers

# Names that lines are expected to have beside those of the contract; each costs a column.
MOST_NAMES: Final = 64
# No object of the contract is as short.
LEAST_BYTES: Final = 4
_OF_KIND: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class Shape:
    """What lines look like: the fields of the contract, one of which is a map of texts, and the names seen beside."""

    def __init__(self, fields: Mapping[str, pa.DataType]) -> None:
        self._fields = dict(fields)
        self._map = next(name for name, kind in fields.items() if pa.types.is_map(kind))
        self._others: dict[str, pa.DataType] = {}
        self._names: dict[str, pa.DataType] = {}

    def learn(self, fields: Mapping[str, Any]) -> None:
        """Expect the names of this line from now on, as far as there is room."""
        others = {name: type(value) for name, value in fields.items() if name not in self._fields}
        for seen, names in ((self._others, others), (self._names, dict.fromkeys(fields[self._map], str))):
            for name, kind in names.items():
                if kind in _OF_KIND and len(seen) < MOST_NAMES:
                    seen.setdefault(name, _OF_KIND[kind])

    def parsed(self, lines: pa.BinaryArray) -> pa.RecordBatch:
        """The fields of the contract of `plain_lines`, null where a line has none; the map in the order of its names.

        ValueError where any of them is no JSON, has a value of another type, or a name that is unexpected or repeated.
        """
        # The cast looks whether it is UTF-8.
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.cast(pa.string()))
        text = pc.binary_join(whole, "\n")[0].as_buffer()
        objects = {self._map: pa.struct(dict(sorted(self._names.items())))}
        table = arrow_json.read_json(
            pa.BufferReader(text),
            arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema({**self._fields, **self._others, **objects}),
                unexpected_field_behavior="error",
            ),
        )
        # A line begins with a brace, and the one before ends with one: no object goes on there. So each line has one.
        if table.num_rows != len(lines) or table[self._map].null_count:
            raise ValueError("not one object with a map a line")
        columns = {name: table[name].combine_chunks() for name in self._fields}
        columns[self._map] = _as_maps(columns[self._map])
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(self._fields))


def plain_lines(lines: pa.BinaryArray) -> Numbers:
    """Which lines may be parsed together: those that begin and end with a brace, and have nothing that two parsers may
    take for different things: a null, or half a pair of surrogates."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(lines) + 1, lines.offset * 4)
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    if size < LEAST_BYTES:
        return np.zeros(len(lines), bool)
    octets = np.frombuffer(data, np.uint8, size, first)
    starts, ends = bounds[:-1] - first, bounds[1:] - first
    is_plain: Numbers = ends > starts
    is_plain &= (octets[np.minimum(starts, size - 1)] == ord("{")) & (octets[np.maximum(ends - 1, 0)] == ord("}"))
    # Where four bytes are left: a line that ends sooner ends with no brace.
    before_u = octets[1:-2] == ord("u")
    nulls = np.flatnonzero((octets[:-3] == ord("n")) & before_u)
    nulls = nulls[(octets[nulls + 2] == ord("l")) & (octets[nulls + 3] == ord("l"))]
    escapes = np.flatnonzero((octets[:-3] == ord("\\")) & before_u)
    escapes = escapes[(octets[escapes + 2] | ord(" ")) == ord("d")]
    if len(odd := np.concatenate([nulls, escapes])):
        is_plain[np.searchsorted(ends, odd, side="right")] = False
    return is_plain


def _as_maps(objects: pa.StructArray) -> pa.MapArray:
    """Objects as maps of the names that each has, in the order of the fields."""
    columns, count = objects.flatten(), len(objects)
    names = pa.array([field.name for field in objects.type], pa.string())
    is_there = np.array([column.is_valid().to_numpy(zero_copy_only=False) for column in columns], bool)
    is_there = is_there.reshape(len(columns), count).T
    rows, places = np.nonzero(is_there)
    values = pa.concat_arrays(columns) if columns else names
    return pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(is_there.sum(axis=1))]).astype(np.int32)),
        names.take(pa.array(places)),
        values.take(pa.array(places * count + rows)),
    )
