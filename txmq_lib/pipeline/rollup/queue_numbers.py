"""Names and consumer queues as small numbers, the same in each batch."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from txmq_lib.names import OFFSET_KEY
from txmq_lib.pipeline.rollup.plain_queues import NOBODY
from txmq_lib.spark.arrays import Numbers

# Some 0.3 KiB of each are kept in this process.
MOST_QUEUES: Final = 500_000
# The numbers of a broker, a group and a topic make one.
_NAME_BITS: Final = 20


class TooManyError(Exception):
    """More queues or names than this process keeps."""


class Names:
    """Texts of one kind, numbered from 0 on as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, column: pa.Array) -> Numbers:
        """The number of each text; NOBODY for null. TooManyError where there are a million."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for word in coded.dictionary.to_pylist()]
        if len(self._numbers) > 1 << _NAME_BITS:
            raise TooManyError
        code_numbers: Numbers = np.array([*numbers, NOBODY], np.int64)
        return np.asarray(code_numbers[coded.indices.fill_null(len(numbers)).to_numpy()])

    def texts(self, numbers: Numbers) -> pa.Array:
        """The texts of these numbers; null for NOBODY."""
        words = pa.array(self._numbers, pa.string())
        return words.take(pa.array(numbers, mask=numbers == NOBODY))


class QueueNumbers:
    """Consumer queues (OFFSET_KEY), numbered from 0 on as they come. An owner is broker, group and topic."""

    def __init__(self) -> None:
        self._names = [Names() for _ in OFFSET_KEY[:3]]
        self._owners: dict[int, int] = {}
        self._queues: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def of(self, rows: pa.RecordBatch) -> Numbers:
        """The number of each row's queue. TooManyError where there are more than MOST_QUEUES."""
        owner = np.zeros(rows.num_rows, np.int64)
        for names, column in zip(self._names, OFFSET_KEY[:3], strict=True):
            owner = (owner << _NAME_BITS) | names.of(rows[column])
        owner = _numbered(self._owners, owner)
        queue_id = rows[OFFSET_KEY[3]].to_numpy().astype(np.int64)
        return _numbered(self._queues, (owner << 32) | (queue_id & 0xFFFFFFFF))

    def keys(self, numbers: Numbers) -> dict[str, pa.Array]:
        """OFFSET_KEY of these queues."""
        queues = np.fromiter(self._queues, np.int64)[numbers]
        owners = np.fromiter(self._owners, np.int64)[queues >> 32]
        mask = (1 << _NAME_BITS) - 1
        shifts = (2 * _NAME_BITS, _NAME_BITS, 0)
        texts = [names.texts((owners >> shift) & mask) for names, shift in zip(self._names, shifts, strict=True)]
        return dict(zip(OFFSET_KEY, [*texts, pa.array(queues.astype(np.int32))], strict=True))


def _numbered(known: dict[int, int], values: Numbers) -> Numbers:
    coded = pa.array(values).dictionary_encode()
    numbers = [known.setdefault(value, len(known)) for value in coded.dictionary.to_pylist()]
    if len(known) > MOST_QUEUES:
        raise TooManyError
    code_numbers: Numbers = np.array(numbers, np.int64)
    return np.asarray(code_numbers[coded.indices.to_numpy()])
