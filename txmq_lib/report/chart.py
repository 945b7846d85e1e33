"""A chart drawn as SVG, the look that all charts share, their axes and colours. The only importer of vl_convert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import vl_convert

Spec: TypeAlias = dict[str, Any]
BarRow: TypeAlias = tuple[str, str, float]
Line = TypeVar("Line")
# A chart is drawn twice, for wide and for narrow windows: shrunk text cannot be read.
WIDE, NARROW = 960, 350
HEIGHT = 240
BAR_HEIGHT = 22
# Colours are names that the page's style gives values to, so that one drawing serves both themes.
INK, FAINT = "var(--ink)", "var(--line)"
HUES = tuple(f"var(--hue-{place})" for place in range(1, 12))
AGES = tuple(f"var(--age-{place})" for place in range(1, 6))
AXIS = {
    "labelColor": INK,
    "titleColor": INK,
    "domainColor": FAINT,
    "tickColor": FAINT,
    "gridColor": FAINT,
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "labelOverlap": "greedy",
}
CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    # Room for labels in a font wider than the one they were measured in.
    "padding": {"left": 14, "right": 14, "top": 4, "bottom": 4},
    "view": {"stroke": None},
    "axis": AXIS,
    "axisX": {"labelPadding": 6, "titlePadding": 10},
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "labelLimit": 260,
        "columnPadding": 16,
    },
}


@dataclass(frozen=True)
class Chart:
    """What is drawn, told in words too: `title` names the unit, `summary` says what is to be seen."""

    title: str
    summary: str
    spec: Spec
    height: int = HEIGHT

    def svg(self, width: int) -> str:
        """The drawing. It has no ids, which several drawings in one page would share."""
        spec = {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": width,
            "height": self.height,
            "autosize": {"type": "fit", "contains": "padding"},
            **self.spec,
        }
        if width < WIDE:
            spec = _narrowed(spec)
        drawn: str = vl_convert.vegalite_to_svg(spec, config=CONFIG, allowed_base_urls=[])
        # Readers of the screen are told `title`, `summary` and the table beside it.
        return drawn.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _narrowed(spec: Spec) -> Spec:
    """The same with legends in two columns of smaller letters and with fewer ticks, wherever they are in it."""

    def mended(value: Any) -> Any:  # noqa: ANN401 - a JSON value is any
        if isinstance(value, dict):
            changed = {name: mended(item) for name, item in value.items()}
            if "columns" in changed:
                changed |= {"columns": min(changed["columns"], 2), "labelFontSize": 10, "columnPadding": 8}
            if "tickCount" in changed:
                changed["tickCount"] = min(changed["tickCount"], 4)
            if "labelLimit" in changed:
                changed["labelLimit"] = min(changed["labelLimit"], 110)
            return changed
        return [mended(item) for item in value] if isinstance(value, list) else value

    narrowed: Spec = mended(spec)
    return narrowed


def time_axis(ends: Sequence[datetime]) -> Spec:
    """The axis of times of all charts over time: clock times within a day, which the title names, else dates too."""
    span = ends[-1] - ends[0]
    if ends[0].date() != ends[-1].date():
        label = "%d %b" if span > timedelta(days=4) else "%d %b %H:%M"
        return {"title": "time (UTC)", "grid": False, "tickCount": 8, "format": label}
    label = "%H:%M" if span > timedelta(hours=1) else "%H:%M:%S"
    return {"title": f"time on {ends[0]:%d %b %Y} (UTC)", "grid": False, "tickCount": 8, "format": label}


DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4]]


def colour_scale(names: Sequence[str], hues: Sequence[str], symbol: str = "square") -> Spec:
    """The colour of each series, with a legend where there are several."""
    stroke = 2 if symbol == "stroke" else 0
    legend = {"orient": "top", "title": None, "columns": 6, "symbolType": symbol, "symbolStrokeWidth": stroke}
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(names), "range": list(hues[: len(names)])},
        "legend": legend if len(names) > 1 else None,
    }


def never_flat(values: Sequence[Mapping[str, Any]]) -> Spec:
    """A scale for values that are all 0: an axis from 0 to 0 has no length."""
    return {} if any(each["value"] for each in values) else {"scale": {"domain": [0, 1]}}


def value_axis(unit: str) -> Spec:
    """The axis of counts, or of seconds."""
    # Only spans of time come in fractions. Of 0 and of fractions the SI form would be read wrongly.
    whole = {} if unit == "seconds" else {"tickMinStep": 1}
    label = "datum.value >= 1000 ? format(datum.value, '.3~s') : format(datum.value, '~g')"
    return {"labelExpr": label, "tickCount": 5, **whole}


def time_scale(ends: Sequence[datetime]) -> Spec:
    """From one step before the first of `ends` to the last."""
    step = ms(ends[1]) - ms(ends[0])
    return {"type": "utc", "domain": [ms(ends[0]) - step, ms(ends[-1])]}


def ms(moment: datetime) -> int:
    """Epoch ms."""
    return round(moment.timestamp() * 1000)
