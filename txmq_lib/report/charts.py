"""Charts: Vega-Lite specifications drawn as SVG. The only importer of vl_convert. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import vl_convert

from txmq_lib.escaping import chart_names

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


def stacked_bars(
    lines: Mapping[str, Sequence[float]], ends: Sequence[datetime], unit: str, hues: Sequence[str]
) -> Spec:
    """Bars over time, a part a bar, the series of `lines` on one another."""
    lines = _called(lines)
    step = _ms(ends[1]) - _ms(ends[0])
    values = []
    for place, at in enumerate(ends):
        low: float = 0
        for name, line in lines.items():
            if line[place]:
                values.append(
                    {"from": _ms(at) - step, "to": _ms(at), "low": low, "high": low + line[place], "series": name}
                )
                low += line[place]
    return {
        "data": {"values": values},
        "mark": {"type": "rect", "strokeWidth": 0},
        "encoding": {
            "x": {"field": "from", "type": "temporal", "scale": _times(ends), "axis": time_axis(ends)},
            "x2": {"field": "to"},
            "y": {"field": "low", "type": "quantitative", "title": unit, "axis": _scale(unit)},
            "y2": {"field": "high"},
            "color": _colours(list(lines), hues),
        },
    }


def stacked_areas(
    lines: Mapping[str, Sequence[float]], ends: Sequence[datetime], unit: str, hues: Sequence[str]
) -> Spec:
    """Areas over time on one another, in steps: a figure holds at the end of its part."""
    lines = _called(lines)
    values = [
        {"at": _ms(at), "value": value, "series": name, "place": place}
        for place, (name, line) in enumerate(lines.items())
        # The first figure holds from the beginning of its part.
        for at, value in zip([ends[0] - (ends[1] - ends[0]), *ends], [line[0], *line], strict=True)
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "area", "interpolate": "step-before", "line": False},
        "encoding": {
            "x": {"field": "at", "type": "temporal", "scale": _times(ends), "axis": time_axis(ends)},
            "y": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": _scale(unit)},
            "color": _colours(list(lines), hues),
            "order": {"field": "place", "type": "quantitative"},
        },
    }


def lines_over_time(
    lines: Mapping[str, Sequence[float | None]],
    ends: Sequence[datetime],
    unit: str,
    hues: Sequence[str],
    marks: Sequence[datetime] = (),
) -> Spec:
    """A line per series, told apart by dashes too; `marks` are times crossed by a dashed rule."""
    lines = _called(lines)
    values = [
        {"at": _ms(at), "value": value, "series": name}
        for name, line in lines.items()
        for at, value in zip(ends, line, strict=True)
        if value is not None
    ]
    x = {"field": "at", "type": "temporal", "scale": _times(ends), "axis": time_axis(ends)}
    names = list(lines)
    dashes = {"field": "series", "type": "nominal", "scale": {"domain": names, "range": DASHES}}
    drawn: Spec = {
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear"},
        "encoding": {
            "x": x,
            "y": {"field": "value", "type": "quantitative", "title": unit, "axis": _scale(unit), **_least(values)},
            "color": _colours(names, hues, symbol="stroke"),
            **({"strokeDash": dashes} if len(names) > 1 else {}),
        },
        "data": {"values": values},
    }
    if not marks:
        return drawn
    crossed: Spec = {
        "data": {"values": [{"at": _ms(at)} for at in marks]},
        "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5, "color": "var(--bad)"},
        "encoding": {"x": x},
    }
    return {"layer": [drawn, crossed]}


DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4]]


def bars(rows: Sequence[BarRow], unit: str, series: Sequence[str], hues: Sequence[str]) -> Spec:
    """Lying bars, one per name in the order given; rows are (name, series, value)."""
    rows, series = _all_called(rows, series)
    names, values = _named(rows, series)
    return {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.7}},
        "encoding": {
            "y": {
                "field": "name",
                "type": "nominal",
                "scale": {"domain": names},
                "title": None,
                "axis": {"labelLimit": 200, "ticks": False, "domain": False, "labelOverlap": False},
            },
            "x": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": _scale(unit)},
            "color": _colours(list(series), hues),
            "order": {"field": "place", "type": "quantitative"},
        },
    }


def columns(rows: Sequence[BarRow], unit: str, along: str, series: Sequence[str], hues: Sequence[str]) -> Spec:
    """Standing bars over named classes, in the order given; rows are (class, series, value)."""
    rows, series = _all_called(rows, series)
    names, values = _named(rows, series)
    return {
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "name",
                "type": "ordinal",
                "scale": {"domain": names},
                "axis": {"title": along, "labelAngle": -45, "labelOverlap": False},
            },
            "y": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": _scale(unit)},
            "color": _colours(list(series), hues),
            "order": {"field": "place", "type": "quantitative"},
        },
    }


def _called(lines: Mapping[str, Line]) -> dict[str, Line]:
    """The same under names that can be drawn."""
    names = chart_names(lines)
    return {names[name]: line for name, line in lines.items()}


def _all_called(rows: Sequence[BarRow], series: Sequence[str]) -> tuple[list[BarRow], list[str]]:
    called, series_called = chart_names(name for name, _, _ in rows), chart_names(series)
    return [(called[name], series_called[of], value) for name, of, value in rows], [series_called[of] for of in series]


def _named(rows: Sequence[BarRow], series: Sequence[str]) -> tuple[list[str], list[Spec]]:
    places = {name: place for place, name in enumerate(series)}
    values = [
        {"name": name, "series": which, "value": value, "place": places[which]} for name, which, value in rows if value
    ]
    return list(dict.fromkeys(name for name, _, _ in rows)), values


def bars_height(names: int, series: int) -> int:
    """How high `bars` must be: a row per name, the axis, and a legend where there is one."""
    return BAR_HEIGHT * names + 70 + (24 if series > 1 else 0)


def _colours(names: Sequence[str], hues: Sequence[str], symbol: str = "square") -> Spec:
    stroke = 2 if symbol == "stroke" else 0
    legend = {"orient": "top", "title": None, "columns": 6, "symbolType": symbol, "symbolStrokeWidth": stroke}
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(names), "range": list(hues[: len(names)])},
        "legend": legend if len(names) > 1 else None,
    }


def _least(values: Sequence[Mapping[str, Any]]) -> Spec:
    # An axis from 0 to 0 has no length.
    return {} if any(each["value"] for each in values) else {"scale": {"domain": [0, 1]}}


def _scale(unit: str) -> Spec:
    # Only spans of time come in fractions. Of 0 and of fractions the SI form would be read wrongly.
    whole = {} if unit == "seconds" else {"tickMinStep": 1}
    label = "datum.value >= 1000 ? format(datum.value, '.3~s') : format(datum.value, '~g')"
    return {"labelExpr": label, "tickCount": 5, **whole}


def _times(ends: Sequence[datetime]) -> Spec:
    step = _ms(ends[1]) - _ms(ends[0])
    return {"type": "utc", "domain": [_ms(ends[0]) - step, _ms(ends[-1])]}


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
