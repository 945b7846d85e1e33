"""Spark's xxhash64 over rows in Arrow: what tasks write without the JVM has the hash that it would have had there.

Spark hashes the columns of a row one after the other, each with the hash so far as its seed; nulls leave it as it is
(XxHash64Function, XXH64.java). All rows of a batch take each step at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from txmq_lib.spark.arrays import Numbers

_SEED: Final = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LANES: Final = tuple(np.uint64(lane % 2**64) for lane in (int(_P1) + int(_P2), int(_P2), 0, -int(_P1)))
_LANE_TURNS: Final = (1, 7, 12, 18)
_STRIPE: Final = 32


class Texts:
    """The bytes of a text or binary column, to be read in words from anywhere."""

    def __init__(self, column: pa.Array) -> None:
        column = column.cast(pa.binary()) if pa.types.is_string(column.type) else column
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
        self.starts, self.lengths = ends[:-1], np.diff(ends)
        size = data.size if data is not None else 0
        octets = np.frombuffer(data, np.uint8) if size >= 8 else np.zeros(8, np.uint8)
        if 0 < size < 8:
            octets[:size] = np.frombuffer(data, np.uint8)
        self.octets = octets
        self.words: Numbers = np.ndarray((len(octets) - 7,), "<u8", octets.data, strides=(1,))
        self.halves: Numbers = np.ndarray((len(octets) - 3,), "<u4", octets.data, strides=(1,))


def row_hash(columns: Sequence[pa.Array]) -> pa.Array:
    """xxhash64 of each row of `columns`, as Spark computes it.

    columns  int32, int64, timestamps in microseconds, text, binary; a map counts as the array of its entries by name
    """
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        if pa.types.is_map(column.type):
            _add_entries(hashes, column)
        else:
            _add_column(hashes, column)
    return pa.array(hashes.view(np.int64))


def _add_column(hashes: Numbers, column: pa.Array) -> None:
    """The hashes with one more column, in place."""
    rows = slice(None) if column.null_count == 0 else np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    seeds = hashes[rows]
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        texts = Texts(column)
        hashes[rows] = _of_texts(seeds, texts, texts.starts[rows], texts.lengths[rows])
    elif column.type.bit_width == 32:
        hashes[rows] = _of_ints(seeds, column.fill_null(0).to_numpy().view(np.uint32)[rows])
    else:
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
        hashes[rows] = _of_longs(seeds, numbers[rows])


def _add_entries(hashes: Numbers, column: pa.MapArray) -> None:
    """The hashes with the entries of a map column without nulls, by name, in place."""
    ends = column.offsets.to_numpy().astype(np.int64)
    counts, first = np.diff(ends), ends[0]
    keys, items = (part.slice(first, ends[-1] - first) for part in (column.keys, column.items))
    names = keys.dictionary_encode()
    texts, values = Texts(names.dictionary), Texts(items)
    order = sorted(range(len(names.dictionary)), key=[name.as_py().encode() for name in names.dictionary].__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = names.indices.to_numpy()
    row_of_entry = np.repeat(np.arange(len(column)), counts)
    by_name = np.argsort(row_of_entry * max(len(order), 1) + rank[codes], kind="stable")
    rows = np.arange(len(column))
    for place in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > place]
        entries = by_name[(ends[:-1] - first)[rows] + place]
        named = codes[entries]
        seeds = _of_texts(hashes[rows], texts, texts.starts[named], texts.lengths[named])
        hashes[rows] = _of_texts(seeds, values, values.starts[entries], values.lengths[entries])


def _of_ints(seeds: Numbers, numbers: Numbers) -> Numbers:
    hashes = seeds + _P5 + np.uint64(4)
    hashes ^= numbers.astype(np.uint64) * _P1
    return _mixed(_turned(hashes, 23) * _P2 + _P3)


def _of_longs(seeds: Numbers, numbers: Numbers) -> Numbers:
    return _mixed(_with_word(seeds + _P5 + np.uint64(8), numbers))


def _of_texts(seeds: Numbers, texts: Texts, starts: Numbers, lengths: Numbers) -> Numbers:
    hashes = seeds + _P5
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        hashes[long] = _of_stripes(seeds[long], texts, starts[long], lengths[long] // _STRIPE)
    hashes += lengths.view(np.uint64)
    rest = lengths & (_STRIPE - 1)
    places = starts + (lengths - rest)
    for word in range(3):
        if len(rows := _which(rest >= 8 * (word + 1))):
            hashes[rows] = _with_word(hashes[rows], texts.words[places[rows] + 8 * word])
    if len(rows := _which((rest & 4) > 0)):
        half = texts.halves[(places + (rest & 24))[rows]].astype(np.uint64)
        hashes[rows] = _turned(hashes[rows] ^ half * _P1, 23) * _P2 + _P3
    for octet in range(3):
        if len(rows := _which((rest & 3) > octet)):
            byte = texts.octets[(places + (rest & 28))[rows] + octet].astype(np.uint64)
            hashes[rows] = _turned(hashes[rows] ^ byte * _P5, 11) * _P1
    return _mixed(hashes)


def _of_stripes(seeds: Numbers, texts: Texts, starts: Numbers, stripes: Numbers) -> Numbers:
    """Of texts of 32 bytes and more, as far as they fill stripes of 32."""
    # The longest first: those that go on are always a beginning.
    order = np.argsort(-stripes, kind="stable")
    lanes = [seeds[order] + lane for lane in _LANES]
    places, going = starts[order], len(order)
    left = stripes[order]
    for stripe in range(int(left[0])):
        while left[going - 1] <= stripe:
            going = int(np.searchsorted(-left, -stripe))
        for number, lane in enumerate(lanes):
            word = texts.words[places[:going] + (_STRIPE * stripe + 8 * number)]
            lane[:going] = _turned(lane[:going] + word * _P2, 31) * _P1
    hashes = sum(_turned(lane, turns) for lane, turns in zip(lanes, _LANE_TURNS, strict=True))
    for lane in lanes:
        hashes = (hashes ^ _turned(lane * _P2, 31) * _P1) * _P1 + _P4
    found = np.empty_like(seeds)
    found[order] = hashes
    return found


def _with_word(hashes: Numbers, words: Numbers) -> Numbers:
    return _turned(hashes ^ _turned(words * _P2, 31) * _P1, 27) * _P1 + _P4


def _mixed(hashes: Numbers) -> Numbers:
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _turned(numbers: Numbers, bits: int) -> Numbers:
    return (numbers << np.uint64(bits)) | (numbers >> np.uint64(64 - bits))


def _which(condition: Numbers) -> Numbers:
    return np.flatnonzero(condition)
