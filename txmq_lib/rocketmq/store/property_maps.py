"""Stored message properties (F4) as columns, split for a whole batch at once. Must not know what properties mean."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_SOH: Final = 1  # between a name and its value
_STX: Final = 2  # behind a value


def property_maps(texts: pa.StringArray) -> pa.MapArray:
    """Stored property texts, none of them null, as maps: each name of a message once, with its last value.

    Rule    F4: name, SOH, value, STX; a piece without both a name and a value does not count.
    """
    offsets, names, values = _split(texts)
    if _repeats_a_name(offsets, names):
        return property_maps(pa.array([_without_repeats(text) for text in texts.to_pylist()], pa.string()))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values)


def _repeats_a_name(offsets: Integers, names: pa.StringArray) -> bool:
    encoded = names.dictionary_encode()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    keyed = np.sort(rows * len(encoded.dictionary) + np.asarray(encoded.indices))
    return bool((keyed[1:] == keyed[:-1]).any())


def _split(texts: pa.StringArray) -> tuple[Integers, pa.StringArray, pa.StringArray]:
    """Where the pairs of each text begin among all, their names and their values."""
    text_ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(int)
    stored = texts.buffers()[2]
    data = np.frombuffer(stored, np.uint8)[: text_ends[-1]] if stored is not None else np.empty(0, np.uint8)
    starts, ends, pieces_before = _pieces(data, text_ends)
    middles, is_pair = _middles(data, starts, ends)
    if not is_pair.all():
        kept_before = np.concatenate(([0], np.cumsum(is_pair)))
        pieces_before = kept_before[pieces_before]
        starts, middles, ends = starts[is_pair], middles[is_pair], ends[is_pair]
    # The text is cut into names, what stands behind each, values, what stands behind each.
    cuts = np.empty((len(starts), 4), np.int32)
    cuts[:, 0], cuts[:, 1], cuts[:, 2], cuts[:, 3] = starts, middles, middles + 1, ends
    offsets = np.append(cuts.ravel(), np.int32(len(data)))
    parts = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), stored])
    names = np.arange(0, len(offsets) - 1, 4)
    return pieces_before, parts.take(pa.array(names)), parts.take(pa.array(names + 2))


def _pieces(data: NDArray[np.uint8], text_ends: Integers) -> tuple[Integers, Integers, Integers]:
    """Where the pieces between STX begin and end, and per text how many lie before it."""
    found = np.flatnonzero(data == _STX)
    pieces_before = np.searchsorted(found, text_ends)
    last = text_ends[1:]
    is_open = last > text_ends[:-1]
    is_open[is_open] = data[last[is_open] - 1] != _STX
    if not is_open.any():
        starts = np.empty_like(found)
        starts[:1], starts[1:] = text_ends[0], found[:-1] + 1
        return starts, found, pieces_before
    # The end of a text ends its last piece, too, and what follows it begins right there.
    ends = np.concatenate((last[is_open], found))
    widths = np.repeat([0, 1], [len(ends) - len(found), len(found)])
    order = np.argsort(ends, kind="stable")
    ends, widths = ends[order], widths[order]
    starts = np.concatenate((text_ends[:1], (ends + widths)[:-1]))
    pieces_before[1:] += np.cumsum(is_open)
    return starts, ends, pieces_before


def _middles(data: NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Of each piece its first SOH, and whether there is one between a name and a value."""
    found = np.flatnonzero(data == _SOH)
    if len(found) == len(starts):
        is_pair = (found > starts) & (found < ends - 1)
        if is_pair.all():
            return found, is_pair
    if not len(found):
        return starts, np.zeros(len(starts), bool)
    middles = found[np.minimum(np.searchsorted(found, starts), len(found) - 1)]
    return middles, (middles > starts) & (middles < ends - 1)


def _without_repeats(text: str) -> str:
    pairs = (piece.partition("\x01") for piece in text.split("\x02"))
    last = {name: value for name, _, value in pairs if name and value}
    return "\x02".join(f"{name}\x01{value}" for name, value in last.items())
