"""The sections about what became of transactions: verdicts, contradictions with their stories, time to a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txmq_lib import names
from txmq_lib.report import charts, history
from txmq_lib.report.chart import Chart
from txmq_lib.report.parts import Figure, Section, Table, count_text, counted, group_text
from txmq_lib.report.period import Period
from txmq_lib.report.shared import ROWS_LISTED, figure_over_time, left_out
from txmq_lib.report.stories import STORIES_TOLD, Links, link_to, told_stories
from txmq_lib.views import reasons
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, row_count, state_options, view_rows
from txmq_lib.views.status import Status

HUES_OF_VERDICTS: Mapping[str, str] = {
    names.COMMITTED: "var(--hue-3)",
    names.ROLLED_BACK: "var(--hue-1)",
    names.PENDING: "var(--hue-6)",
    names.DISCARDED: "var(--hue-2)",
    names.DISCARDED_UNSEEN: "var(--hue-12)",
    names.DUPLICATED: "var(--hue-4)",
    names.CONFLICT: "var(--hue-5)",
    names.COMMITTED_AND_DISCARDED: "var(--hue-7)",
    names.COMMITTED_OP_LOST: "var(--hue-8)",
    names.DIVERTED: "var(--hue-9)",
    names.EXPIRED_UNSEEN: "var(--hue-10)",
    names.RESOLVED_UNKNOWN: "var(--hue-11)",
}
# Drawn first, so that the others stand on them.
ORDINARY = (names.COMMITTED, names.ROLLED_BACK, *names.STILL_ASKED)
NO_VERDICTS = "No verdicts yet: txmq audit gives them."


def verdict_section(reader: WarehouseReader, period: Period, status: Status) -> Section:
    """Verdicts: how many of each, all over time, and those that somebody should look at over time."""
    if not status.verdicts:
        return Section("verdicts", "Verdicts", empty=NO_VERDICTS)
    found = history.verdicts_over_time(reader, period)
    lines = {verdict: found[verdict] for verdict in dict.fromkeys((*ORDINARY, *found)) if verdict in found}
    figures = []
    for title, kept in (
        ("Verdicts by when the half was stored, transactions", lines),
        (
            "Verdicts to look at by when the half was stored, transactions",
            {verdict: line for verdict, line in lines.items() if verdict not in ORDINARY},
        ),
    ):
        if kept:
            total = sum(map(sum, kept.values()))
            hues = [HUES_OF_VERDICTS[verdict] for verdict in kept]
            figures.append(
                figure_over_time(title, f"{counted(total, 'transaction')}.", kept, period, hues, are_bars=True)
            )
    counts = Table(
        "Transactions per verdict",
        ("verdict", "transactions", "given by the last pass"),
        [(row.verdict, count_text(row.count), count_text(row.last_pass)) for row in status.verdicts],
        numbers=(1, 2),
    )
    why = Table(
        "Verdicts by reason",
        ("verdict", "reason", "transactions", "what it means"),
        [
            (row.verdict, reason, count_text(count), reasons.MEANING.get(reason, ""))
            for row in status.verdicts
            for reason, count in row.reasons.items()
        ],
        numbers=(2,),
    )
    return Section("verdicts", "Verdicts", figures=figures, tables=[each for each in (counts, why) if each.rows])


def contradiction_section(reader: WarehouseReader, links: Links) -> Section:
    """Transactions visible twice or contradicted, each with a link to its story."""
    title = "Duplicated and contradicted transactions"
    query = ViewQuery(filters={"state": names.ENDED_TWICE}, limit=STORIES_TOLD)
    columns = (
        *("broker_name", "transaction_id", "producer_group", "born_timestamp", "verdict", "real_topic"),
        *("visible_count", "op_count", "contradicting_count", "last_timestamp"),
    )
    rows = [dict(zip(columns, row, strict=True)) for row in view_rows(reader, VERDICTS, query, columns=columns)]
    if not rows:
        return Section("contradictions", title, empty="No transaction is visible twice or contradicted.")
    total = row_count(reader, VERDICTS, query)
    stories = [] if links is Links.PAGES else told_stories(reader, rows, "story")
    listed = [
        (
            link_to(row, place, "story", links),
            row["verdict"],
            group_text(row["producer_group"]),
            row["real_topic"] or "-",
            count_text(row["visible_count"]),
            count_text(row["op_count"]),
            count_text(row["contradicting_count"]),
            row["last_timestamp"],
        )
        for place, row in enumerate(rows, start=1)
    ]
    head = ("transaction", "verdict", "producer group", "topic", "visible", "ops", "contradicting ends", "last seen")
    note = left_out(total, "transactions", f"txmq verdicts {state_options(names.ENDED_TWICE)}", STORIES_TOLD)
    table = Table(f"The newest of {count_text(total)}, each with its story", head, listed, numbers=(4, 5, 6), note=note)
    words = ("Consumers must drop repeats by the transaction id. A conflict is most likely a commit and a rollback.",)
    return Section("contradictions", title, words, tables=[table], stories=stories)


def decision_section(reader: WarehouseReader, period: Period) -> Section:
    """Time from half to decision: its distribution, and percentiles per producer group."""
    times = history.decision_times(reader, period)
    if not times:
        return Section("decisions", "Time from half to decision", empty="Nothing was decided in this period.")
    counts = history.decision_counts(reader, period)
    classes = history.decision_classes()
    series = {verdict: verdict.lower().replace("_", " ") for verdict in history.DECIDED}
    used = [place for place in range(len(classes)) if any(line[place] for line in counts.values())]
    shown = range(used[0], used[-1] + 1)
    rows = [
        (classes[place], series[verdict], float(line[place])) for place in shown for verdict, line in counts.items()
    ]
    total = sum(each.count for each in times)
    hues = [HUES_OF_VERDICTS[verdict] for verdict in series]
    spec = charts.columns(rows, "transactions", "time from half to decision", list(series.values()), hues)
    chart = Chart(
        "Time from half to decision, transactions per class", f"{counted(total, 'transaction')} decided.", spec, 280
    )
    table = Table(
        "Transactions by time from half to decision",
        ("time", *series.values()),
        [(classes[place], *(count_text(line[place]) for line in counts.values())) for place in shown],
        numbers=tuple(range(1, 1 + len(series))),
    )
    words = (
        "From the time the first half row was stored to that of the last row of the transaction, which is the op"
        " message of the commit or rollback. Transactions committed once or rolled back only.",
    )
    return Section(
        "decisions", "Time from half to decision", words, figures=[Figure(chart, table)], tables=[_percentiles(times)]
    )


def _percentiles(times: Sequence[history.DecisionTimes]) -> Table:
    return Table(
        "Percentiles of the time from half to decision, seconds",
        ("producer group", "transactions", "p50", "p90", "p95", "p99", "longest"),
        [
            (
                group_text(each.producer_group),
                count_text(each.count),
                *(count_text(round(seconds, 3)) for seconds in (*each.quantiles, each.longest)),
            )
            for each in times[:ROWS_LISTED]
        ],
        numbers=range(1, 7),
        note=left_out(len(times), "groups", "txmq verdicts"),
    )
