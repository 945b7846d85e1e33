"""What rows of input hold once they are rows of Spark."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from txmq_lib.files.materialized import at_most, bytes_in_spark

NAMES = {format(number, "x"): "v" for number in range(1000)}


@pytest.mark.parametrize(
    "rows",
    [
        pa.RecordBatch.from_pydict({"value": [json.dumps(NAMES)]}),
        pa.RecordBatch.from_pydict({"value": [json.dumps(NAMES).encode()]}),
        pa.RecordBatch.from_arrays(
            [pa.array([[], [*NAMES.items()]], pa.map_(pa.string(), pa.string())).slice(1)], ["properties"]
        ),
    ],
    ids=["a line", "a line in bytes", "a record"],
)
def test_a_thousand_properties_hold_more_than_their_text(rows):
    assert rows.nbytes < 20_000
    assert bytes_in_spark(rows) > 60_000
    assert at_most(iter([rows]), rows.schema, 60_000) is None


def test_a_body_holds_its_bytes():
    rows = pa.RecordBatch.from_pydict({"body": [bytes(1000)]})
    assert bytes_in_spark(rows) == rows.nbytes
    assert at_most(iter([rows]), rows.schema, 2000) == pa.Table.from_batches([rows])


def test_no_lines_hold_nothing():
    assert bytes_in_spark(pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})) < 10
