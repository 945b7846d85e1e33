"""Counters that never go backwards though they are counted from tables, whose rows change and are archived.

What was told before is read from the text it was told in. Where less is counted than then, the difference is carried on
top from now on, and noted as a comment in the text. Without an earlier text counting begins with what the tables hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

NOTE = "# txmq carried "
SUM = "sum"
INFINITE = "+Inf"


class Piece(NamedTuple):
    """What is counted on its own: a counter's series, or of a histogram's one bucket (`part` its upper bound, not
    cumulative) or the sum."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    part: str = ""


Counts = Mapping[Piece, float]


def carried_over(counted: Counts, before: str) -> tuple[dict[Piece, float], dict[Piece, float]]:
    """What to tell after the text `before`, never less than it told, and how much of that no table holds any more."""
    shown, carried = _told(before), _notes(before)
    total: dict[Piece, float] = {}
    gone: dict[Piece, float] = {}
    for piece in {**dict.fromkeys(shown), **dict.fromkeys(counted)}:
        counted_before = shown.get(piece, 0.0) - carried.get(piece, 0.0)
        gone[piece] = carried.get(piece, 0.0) + max(0.0, counted_before - counted.get(piece, 0.0))
        total[piece] = counted.get(piece, 0.0) + gone[piece]
    return total, {piece: amount for piece, amount in gone.items() if amount}


def notes(carried: Counts) -> str:
    """`carried` as lines that a Prometheus parser passes over."""
    lines = [json.dumps([*piece, amount], ensure_ascii=False) for piece, amount in sorted(carried.items())]
    return "".join(f"{NOTE}{line}\n" for line in lines)


def _notes(text: str) -> dict[Piece, float]:
    found = {}
    for line in text.split("\n"):  # labels may have line ends of Unicode in them
        if line.startswith(NOTE):
            metric, labels, part, amount = json.loads(line.removeprefix(NOTE))
            found[Piece(metric, tuple((name, value) for name, value in labels), part)] = amount
    return found


def _told(text: str) -> dict[Piece, float]:
    found: dict[Piece, float] = {}
    for family in text_string_to_metric_families(text):
        if family.type == "counter":
            found.update((_piece(family.name, sample.labels), sample.value) for sample in family.samples)
        elif family.type == "histogram":
            found.update(_histogram(family))
    return found


def _histogram(family: Metric) -> Iterator[tuple[Piece, float]]:
    cumulated: dict[Piece, list[tuple[str, float]]] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        if sample.name.endswith("_sum"):
            yield _piece(family.name, labels, SUM), sample.value
        elif sample.name.endswith("_bucket"):
            cumulated.setdefault(_piece(family.name, labels), []).append((sample.labels["le"], sample.value))
    for series, buckets in cumulated.items():
        for (_, below), (bound, count) in pairwise([("", 0.0), *buckets]):
            yield series._replace(part=bound), count - below


def _piece(metric: str, labels: Mapping[str, str], part: str = "") -> Piece:
    return Piece(metric, tuple(sorted(labels.items())), part)
