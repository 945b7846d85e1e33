"""The metrics of a warehouse in Prometheus's text format. The clock and the text told before are given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from txmq_lib.views.counters import SUM, Counts, Piece, carried_over, notes
from txmq_lib.views.metric_names import BY_NAME, FAMILIES, LEFT_OUT, bounds, piece
from txmq_lib.views.metric_values import metric_values
from txmq_lib.views.reader import WarehouseReader

# Of one metric. Producers choose the names of their topics and groups, and a scraper keeps every one for weeks.
MOST_SERIES = 10_000

Labels: TypeAlias = tuple[tuple[str, str], ...]
AnyFamily: TypeAlias = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


def metrics_text(
    reader: WarehouseReader,
    now: datetime,
    *,
    lag_window_ms: int,
    source_steps: Collection[str] = (),
    before: str = "",
) -> str:
    """Every metric in Prometheus's text format; no counter below what the text `before` told.

    source_steps  the steps of the configured sources (`run_figures`)
    """
    values = _bounded(dict(metric_values(reader, now, lag_window_ms, source_steps)))
    counts = {piece: value for piece, value in values.items() if BY_NAME[piece.metric].kind != "gauge"}
    counters, carried = carried_over(counts, before)
    registry = CollectorRegistry()
    registry.register(_Collected([*_families({**values, **counters})]))
    return generate_latest(registry).decode() + notes(carried)


def _bounded(values: Counts) -> dict[Piece, float]:
    """Of each metric the MOST_SERIES series with the highest values, and of how many more nothing is told."""
    sums: defaultdict[str, defaultdict[Labels, float]] = defaultdict(lambda: defaultdict(float))
    for each, value in values.items():
        sums[each.metric][each.labels] += value
    kept = {
        metric: {*sorted(series, key=lambda labels: (-series[labels], labels))[:MOST_SERIES]}
        for metric, series in sums.items()
    }
    left_out = {
        piece(LEFT_OUT, metric): float(len(series) - MOST_SERIES)
        for metric, series in sums.items()
        if len(series) > MOST_SERIES
    }
    return {each: value for each, value in values.items() if each.labels in kept[each.metric]} | left_out


@dataclass(frozen=True, eq=False)
class _Collected:
    families: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


def _families(values: Counts) -> Iterator[Metric]:
    series: defaultdict[str, defaultdict[Labels, dict[str, float]]]
    series = defaultdict(lambda: defaultdict(dict))
    for each, value in values.items():
        series[each.metric][each.labels][each.part] = value
    for family in FAMILIES:
        metric = MAKERS[family.kind](family.name, family.help, labels=family.labels)
        for labels, parts in sorted(series[family.name].items()):
            known = dict(labels)
            _add(metric, [known[name] for name in family.labels], parts)
        yield metric


MAKERS: Mapping[str, type[AnyFamily]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _add(metric: AnyFamily, labels: Sequence[str], parts: Mapping[str, float]) -> None:
    if not isinstance(metric, HistogramMetricFamily):
        metric.add_metric(labels, parts[""])
        return
    buckets, count = [], 0.0
    for bound in bounds():
        count += parts.get(bound, 0.0)
        buckets.append((bound, count))
    metric.add_metric(labels, buckets=buckets, sum_value=parts.get(SUM, 0.0))
