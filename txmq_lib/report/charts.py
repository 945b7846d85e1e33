"""Charts: what is drawn of rows, as Vega-Lite specifications. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from txmq_lib.escaping import chart_names
from txmq_lib.report.chart import (
    BAR_HEIGHT,
    DASHES,
    BarRow,
    Line,
    Spec,
    colour_scale,
    ms,
    never_flat,
    time_axis,
    time_scale,
    value_axis,
)


def stacked_bars(
    lines: Mapping[str, Sequence[float]], ends: Sequence[datetime], unit: str, hues: Sequence[str]
) -> Spec:
    """Bars over time, a part a bar, the series of `lines` on one another."""
    lines = _called(lines)
    step = ms(ends[1]) - ms(ends[0])
    values = []
    for place, at in enumerate(ends):
        low: float = 0
        for name, line in lines.items():
            if line[place]:
                values.append(
                    {"from": ms(at) - step, "to": ms(at), "low": low, "high": low + line[place], "series": name}
                )
                low += line[place]
    return {
        "data": {"values": values},
        "mark": {"type": "rect", "strokeWidth": 0},
        "encoding": {
            "x": {"field": "from", "type": "temporal", "scale": time_scale(ends), "axis": time_axis(ends)},
            "x2": {"field": "to"},
            "y": {"field": "low", "type": "quantitative", "title": unit, "axis": value_axis(unit)},
            "y2": {"field": "high"},
            "color": colour_scale(list(lines), hues),
        },
    }


def stacked_areas(
    lines: Mapping[str, Sequence[float]], ends: Sequence[datetime], unit: str, hues: Sequence[str]
) -> Spec:
    """Areas over time on one another, in steps: a figure holds at the end of its part."""
    lines = _called(lines)
    values = [
        {"at": ms(at), "value": value, "series": name, "place": place}
        for place, (name, line) in enumerate(lines.items())
        # The first figure holds from the beginning of its part.
        for at, value in zip([ends[0] - (ends[1] - ends[0]), *ends], [line[0], *line], strict=True)
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "area", "interpolate": "step-before", "line": False},
        "encoding": {
            "x": {"field": "at", "type": "temporal", "scale": time_scale(ends), "axis": time_axis(ends)},
            "y": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": value_axis(unit)},
            "color": colour_scale(list(lines), hues),
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
    """A line per series, told apart by dashes too; `marks` are time_scale crossed by a dashed rule."""
    lines = _called(lines)
    values = [
        {"at": ms(at), "value": value, "series": name}
        for name, line in lines.items()
        for at, value in zip(ends, line, strict=True)
        if value is not None
    ]
    names, x = list(lines), {"field": "at", "type": "temporal", "scale": time_scale(ends), "axis": time_axis(ends)}
    dashes = {"field": "series", "type": "nominal", "scale": {"domain": names, "range": DASHES}}
    drawn: Spec = {
        "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear"},
        "encoding": {
            "x": x,
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": unit,
                "axis": value_axis(unit),
                **never_flat(values),
            },
            "color": colour_scale(names, hues, symbol="stroke"),
            **({"strokeDash": dashes} if len(names) > 1 else {}),
        },
        "data": {"values": values},
    }
    if not marks:
        return drawn
    crossed: Spec = {
        "data": {"values": [{"at": ms(at)} for at in marks]},
        "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5, "color": "var(--bad)"},
        "encoding": {"x": x},
    }
    return {"layer": [drawn, crossed]}


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
            "x": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": value_axis(unit)},
            "color": colour_scale(list(series), hues),
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
            "y": {"field": "value", "type": "quantitative", "stack": "zero", "title": unit, "axis": value_axis(unit)},
            "color": colour_scale(list(series), hues),
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
