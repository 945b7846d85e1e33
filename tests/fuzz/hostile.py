"""Hostile values from a seeded chance: texts of every Unicode class, numbers at every edge, damaged bytes."""

from __future__ import annotations

import json
import struct
import sys
import unicodedata
from collections import defaultdict
from functools import cache
from random import Random

LONE_SURROGATES = ("\ud800", "\udfff", "\udc00\ud800")
# One of each kind that has broken somebody's parser, terminal, file format or query.
ODD_TEXTS = (
    "",
    " ",
    "\0",
    "\x01\x02",
    "\x1b[2J\x07",
    "\u0085\u2028\u2029",
    "\ufeff",
    "\u202eright to left\u202c \u05d0\u0627",
    "e\u0301" + "\u0300" * 40,
    "\u0130\u0131\u00df\u1e9e",
    "\u0665\uff15\u2167\u00bd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0010ffff\ufffe\uffff\ufffd",
    "\ue000\U000f0000",
    "\U000e0001\ufe0f",
    '"\\"',
    "'; DROP TABLE message; --",
    "`a` ${x} {{y}} %s $1 ?",
    "a@b@c",
    "{}" * 20,
    "}{][",
    "../../etc\\*?[a]",
    "null",
    "true",
    "-1.5E+3",
    "[bold]x[/]",
)
EDGE_NUMBERS = tuple(
    edge + step
    for edge in (0, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**40)
    for sign in (1, -1)
    for step in (-1, 0, 1)
    for edge in (sign * edge,)
)


@cache
def characters() -> tuple[str, ...]:
    """Some characters of each general category, surrogates included, as one text per category."""
    found: dict[str, list[str]] = defaultdict(list)
    for code in range(sys.maxunicode + 1):
        members = found[unicodedata.category(chr(code))]
        if len(members) < 60 or code % 997 == 0:
            members.append(chr(code))
    return tuple("".join(members) for members in found.values())


def text(chance: Random, longest: int = 12, *, has_surrogates: bool = True) -> str:
    """A text out of odd ones and of characters of every Unicode class."""
    parts = []
    for _ in range(chance.randrange(1, 4)):
        match chance.randrange(4):
            case 0:
                parts.append(chance.choice(ODD_TEXTS))
            case 1:
                parts.append(chance.choice(LONE_SURROGATES))
            case 2:
                parts.append("".join(chance.choices("abcXYZ019_-%@", k=chance.randrange(longest))))
            case _:
                category = chance.choice(characters())
                parts.append("".join(chance.choices(category, k=chance.randrange(longest))))
    whole = "".join(parts)
    return whole if has_surrogates else whole.encode("utf-8", "ignore").decode()


def number(chance: Random) -> int:
    """A whole number at the edge of some type, or any."""
    return chance.choice(EDGE_NUMBERS) if chance.random() < 0.7 else chance.getrandbits(chance.randrange(1, 70))


def value(chance: Random, depth: int = 3) -> object:
    """Any JSON value."""
    match chance.randrange(8 if depth else 6):
        case 0:
            return None
        case 1:
            return chance.random() < 0.5
        case 2:
            return number(chance)
        case 3:
            return chance.choice([0.5, -0.0, 1e300, 5.0, 1e-300])
        case 4 | 5:
            return text(chance)
        case 6:
            return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case _:
            return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(4))}


def json_text(chance: Random, value: object) -> str:
    """`given` as JSON, escaped or not, with or without spaces; what UTF-8 cannot hold is always escaped."""
    separators = chance.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])
    if chance.random() < 0.5:
        return json.dumps(value, separators=separators)
    return json.dumps(value, ensure_ascii=False, separators=separators).encode("utf-8", "backslashreplace").decode()


def damaged(chance: Random, data: bytes) -> bytes:
    """`data` with one to four faults: flipped bits, a cut, absurd lengths, foreign bytes, a piece lost or twice."""
    hurt = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        place = chance.randrange(len(hurt) + 1)
        end = min(len(hurt), place + chance.choice([1, 1, 2, 8, 60]))
        match chance.randrange(8):
            case 0 | 1 if hurt:
                hurt[place % len(hurt)] ^= 1 << chance.randrange(8)
            case 2:
                del hurt[place:]
            case 3:
                del hurt[place:end]
            case 4:
                hurt[place:place] = hurt[place:end]
            case 5:
                hurt[place : place + 4] = struct.pack(">I", number(chance) & 0xFFFFFFFF)
            case 6:
                hurt[place:place] = chance.randbytes(chance.randrange(1, 9))
            case _:
                hurt[place:place] = chance.choice(
                    [b'"', b"{", b"}", b"[", b",", b":", b"\\", b"\0", b"\xff", b"0", b"-"]
                )
    return bytes(hurt)
