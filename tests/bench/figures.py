"""Figures: each a ratio of two things measured in one run, smaller is better, judged against thresholds.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from rich.table import Table

THRESHOLDS = Path(__file__).with_name("thresholds.yaml")
LOST = 1.5  # a ratio is lost by more than half


@dataclass(frozen=True)
class Figure:
    """What txmq took (`ours`) against something else measured beside it (`theirs`), both in `unit`.

    rate  rows a second of ours, where rows are counted
    """

    benchmark: str
    name: str
    ours: float
    theirs: float
    unit: str = "s"
    rate: float | None = None

    @property
    def key(self) -> str:
        """What thresholds.yaml calls it."""
        return f"{self.benchmark}: {self.name}"

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs


def thresholds(size: str) -> dict[str, float]:
    """The highest ratio wanted of each figure at this size."""
    return {key: float(value) for key, value in yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))[size].items()}


def lost(figures: Iterable[Figure], ratios: Mapping[str, float]) -> list[str]:
    """What is worse than its threshold by more than half; a figure without a threshold counts as lost, too."""
    faults = []
    for figure in figures:
        if figure.key not in ratios:
            faults.append(f"{figure.key} has no threshold in {THRESHOLDS.name}")
        elif figure.ratio > LOST * ratios[figure.key]:
            faults.append(f"{figure.key}: {figure.ratio:.2f}, wanted at most {ratios[figure.key]:.2f}")
    return faults


def table(figures: Sequence[Figure], ratios: Mapping[str, float]) -> Table:
    """The figures for people."""
    shown = Table("benchmark", "figure", "txmq", "against", "ratio", "at most", "a second", box=None, pad_edge=False)
    for column in shown.columns[2:]:
        column.justify = "right"
    for figure in figures:
        at_most = ratios.get(figure.key)
        met = "" if at_most is None else "ok" if figure.ratio <= at_most else "over"
        shown.add_row(
            figure.benchmark,
            figure.name,
            *(f"{value:.3g} {figure.unit}" for value in (figure.ours, figure.theirs)),
            f"{figure.ratio:.2f}",
            "" if at_most is None else f"{at_most:.2f} {met}",
            "" if figure.rate is None else f"{figure.rate:,.0f}",
        )
    return shown


def as_json(figures: Iterable[Figure], ratios: Mapping[str, float]) -> list[dict[str, Any]]:
    """The figures for programs."""
    return [asdict(figure) | {"ratio": round(figure.ratio, 4), "at_most": ratios.get(figure.key)} for figure in figures]


def middle(seconds: Iterable[float]) -> float:
    """The median."""
    return float(median(seconds))
