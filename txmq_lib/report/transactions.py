"""The sections about transactions: undecided, asked, decided, given up, verdicts, contradictions with their stories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from txmq_lib import names
from txmq_lib.report import charts, history
from txmq_lib.report.charts import Chart
from txmq_lib.report.parts import Figure, Link, Section, StoryPart, Table, count_text, counted, group_text, time_text
from txmq_lib.report.period import Period
from txmq_lib.views.catalogue import VERDICTS
from txmq_lib.views.figures import AGE_CLASSES, OLDER, PendingGroup
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import Asked, row_count, view_rows
from txmq_lib.views.status import CONTRADICTED, Status, span_text
from txmq_lib.views.trace import Story, traces

BARS_DRAWN = 12
ROWS_LISTED = 60
STORIES_TOLD = 50

HUES_OF_VERDICTS: Mapping[str, str] = {
    names.COMMITTED: "var(--hue-3)",
    names.ROLLED_BACK: "var(--hue-1)",
    names.PENDING: "var(--hue-6)",
    names.DISCARDED: "var(--hue-2)",
    names.DUPLICATED: "var(--hue-4)",
    names.CONFLICT: "var(--hue-5)",
    names.COMMITTED_AND_DISCARDED: "var(--hue-7)",
    names.COMMITTED_OP_LOST: "var(--hue-8)",
    names.DIVERTED: "var(--hue-9)",
    names.EXPIRED_UNSEEN: "var(--hue-10)",
    names.RESOLVED_UNKNOWN: "var(--hue-11)",
}
# Drawn first, so that the others stand on them.
ORDINARY = (names.COMMITTED, names.ROLLED_BACK, names.PENDING)
NO_VERDICTS = "No verdicts yet: txmq audit gives them."


def pending_section(reader: WarehouseReader, period: Period, status: Status) -> Section:
    """Undecided transactions by age: now per producer group, and over time."""
    classes = age_names()
    figures = []
    if status.pending:
        figures.append(_pending_now(status.pending, classes))
    if status.verdicts:
        lines = history.pending_over_time(reader, period)
        peak = max(map(sum, zip(*lines.values(), strict=True)))
        if peak:
            told = {classes[name]: line for name, line in lines.items()}
            summary = f"Undecided at once at most: {counted(peak, 'transaction')}."
            figures.append(_over_time("Undecided over time by age, transactions", summary, told, period, charts.AGES))
    return Section(
        "pending",
        "Undecided transactions",
        words=(
            "Age is the time since the half was stored. Over time it is what the verdicts of the last audit tell:"
            " a transaction was undecided from its first half row to the last row seen of it.",
        )
        if figures
        else (),
        figures=figures,
        tables=[_pending_groups(status)] if status.pending else [],
        empty="Nothing is undecided.",
    )


def age_names() -> dict[str, str]:
    """What the age classes are called."""
    return {**{name: f"under {name}" for name in AGE_CLASSES}, OLDER: f"over {list(AGE_CLASSES)[-1]}"}


def _pending_now(groups: Sequence[PendingGroup], classes: Mapping[str, str]) -> Figure:
    drawn = groups[:BARS_DRAWN]
    rows = [
        (group_text(group.producer_group), classes[name], float(count))
        for group in drawn
        for name, count in group.ages.items()
    ]
    largest = groups[0]
    total = sum(group.count for group in groups)
    summary = (
        f"{count_text(total)} undecided, {count_text(largest.count)} of them of {group_text(largest.producer_group)}."
        + _drawn(len(groups), "groups")
    )
    series = list(classes.values())
    spec = charts.bars(rows, "transactions", series, charts.AGES)
    chart = Chart(
        "Undecided now by producer group and age, transactions", summary, spec, charts.bars_height(len(drawn), 5)
    )
    table = Table(
        "Undecided now by age, transactions",
        ("producer group", *series),
        [
            (group_text(group.producer_group), *(count_text(count) for count in group.ages.values()))
            for group in groups[:ROWS_LISTED]
        ],
        numbers=range(1, 6),
        note=_left_out(len(groups), "groups", "txmq pending"),
    )
    return Figure(chart, table)


def _pending_groups(status: Status) -> Table:
    rows = [
        (
            group_text(group.producer_group),
            count_text(group.count),
            count_text(group.due),
            count_text(group.most_checks),
            span_text(status.now - group.oldest_timestamp),
            group.oldest_transaction_id,
        )
        for group in status.pending[:ROWS_LISTED]
    ]
    head = ("producer group", "undecided", "check due", "most checks", "oldest", "oldest transaction")
    note = _left_out(len(status.pending), "groups", "txmq pending")
    return Table("Producer groups with undecided transactions", head, rows, numbers=(1, 2, 3, 4), note=note)


def checks_section(reader: WarehouseReader, status: Status) -> Section:
    """Checks per producer group, by who asked."""
    counts = history.check_counts(reader)
    asked = status.checks
    answers = ", ".join(f"{count_text(count)} {decision}" for decision, count in asked.answers.items())
    words = (
        f"txmq has asked {counted(asked.asked, 'time')}; {counted(asked.answered, 'end')} answered a check"
        + (f" ({answers})." if answers else "."),
    )
    if not counts:
        return Section("checks", "Checks", words=words)
    series = ("by txmq", "by brokers")
    rows = [(group_text(each.producer_group), "by txmq", float(each.by_txmq)) for each in counts[:BARS_DRAWN]]
    rows += [(group_text(each.producer_group), "by brokers", float(each.by_broker)) for each in counts[:BARS_DRAWN]]
    most = counts[0]
    summary = (
        f"{group_text(most.producer_group)} was asked most: {counted(most.by_txmq + most.by_broker, 'check')} about"
        f" {counted(most.transactions, 'transaction')}." + _drawn(len(counts), "groups")
    )
    spec = charts.bars(rows, "checks", series, charts.HUES)
    height = charts.bars_height(min(len(counts), BARS_DRAWN), 2)
    table = Table(
        "Checks per producer group",
        ("producer group", "by txmq", "by brokers", "transactions asked about"),
        [
            (
                group_text(each.producer_group),
                count_text(each.by_txmq),
                count_text(each.by_broker),
                count_text(each.transactions),
            )
            for each in counts[:ROWS_LISTED]
        ],
        numbers=(1, 2, 3),
        note=_left_out(len(counts), "groups", "txmq checks"),
    )
    return Section(
        "checks",
        "Checks",
        words=words,
        figures=[Figure(Chart("Checks per producer group, checks", summary, spec, height), table)],
    )


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
        numbers=(1, 2),
    )
    percentiles = Table(
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
        note=_left_out(len(times), "groups", "txmq verdicts"),
    )
    words = (
        "From the time the first half row was stored to that of the last row of the transaction, which is the op"
        " message of the commit or rollback. Transactions committed once or rolled back only.",
    )
    return Section(
        "decisions", "Time from half to decision", words, figures=[Figure(chart, table)], tables=[percentiles]
    )


def given_up_section(reader: WarehouseReader) -> Section:
    """Messages given up, why, and what became of their transactions."""
    counts = history.given_up_counts(reader)
    if not counts:
        return Section("given-up", "Given up", empty="No message was given up.")
    reasons = sorted({each.reason for each in counts})
    by_group: defaultdict[str, int] = defaultdict(int)
    for each in counts:
        by_group[group_text(each.producer_group)] += each.count
    drawn = sorted(by_group, key=lambda name: (-by_group[name], name))[:BARS_DRAWN]
    rows = [
        (name, each.reason, float(each.count))
        for name in drawn
        for each in counts
        if group_text(each.producer_group) == name
    ]
    told = ", ".join(f"{count_text(sum(e.count for e in counts if e.reason == why))} {why}" for why in reasons)
    chart = Chart(
        "Given up per producer group and reason, messages",
        f"{counted(sum(by_group.values()), 'message')} given up: {told}." + _drawn(len(by_group), "groups"),
        charts.bars(rows, "messages", reasons, (charts.HUES[1], charts.HUES[4], charts.HUES[0])),
        charts.bars_height(len(drawn), len(reasons)),
    )
    table = Table(
        "Messages given up per producer group and reason",
        ("producer group", "reason", "messages", "newest"),
        [
            (group_text(each.producer_group), each.reason, count_text(each.count), time_text(each.newest_timestamp))
            for each in counts[:ROWS_LISTED]
        ],
        numbers=(2,),
        note=_left_out(len(counts), "rows", "txmq given-up"),
    )
    became = Table(
        "What became of transactions that were given up",
        ("verdict", "transactions"),
        [(verdict, count_text(count)) for verdict, count in history.verdicts_of_given_up(reader).items()],
        numbers=(1,),
    )
    words = (
        "check_max: asked as often as the settings allow; expired: older than the reserved time. A broker keeps no"
        " reason. Giving up is no rollback: what is DISCARDED was decided by nobody.",
    )
    return Section("given-up", "Given up", words, [Figure(chart, table)], [became] if became.rows else [])


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
            figures.append(_over_time(title, f"{counted(total, 'transaction')}.", kept, period, hues, are_bars=True))
    counts = Table(
        "Transactions per verdict",
        ("verdict", "transactions", "given by the last pass"),
        [(row.verdict, count_text(row.count), count_text(row.last_pass)) for row in status.verdicts],
        numbers=(1, 2),
    )
    return Section("verdicts", "Verdicts", figures=figures, tables=[counts])


def _over_time(
    title: str,
    summary: str,
    lines: Mapping[str, Sequence[int]],
    period: Period,
    hues: Sequence[str],
    *,
    are_bars: bool = False,
) -> Figure:
    ends = period.ends()
    draw = charts.stacked_bars if are_bars else charts.stacked_areas
    chart = Chart(title, summary, draw(lines, ends, "transactions", hues))
    first = "from" if are_bars else "at"
    rows = [
        (time_text(at - period.step if are_bars else at), *(count_text(line[place]) for line in lines.values()))
        for place, at in enumerate(ends)
        if any(line[place] for line in lines.values())
    ]
    return Figure(chart, Table(title, (first, *lines), rows, numbers=range(1, len(lines) + 1)))


def contradiction_section(reader: WarehouseReader) -> Section:
    """Transactions visible twice or contradicted, each with a link to its story."""
    title = "Duplicated and contradicted transactions"
    asked = Asked(filters={"state": CONTRADICTED}, limit=STORIES_TOLD)
    columns = (
        *("broker_name", "transaction_id", "producer_group", "born_timestamp", "verdict", "real_topic"),
        *("visible_count", "op_count", "contradicting_count", "last_timestamp"),
    )
    rows = [dict(zip(columns, row, strict=True)) for row in view_rows(reader, VERDICTS, asked, columns=columns)]
    if not rows:
        return Section("contradictions", title, empty="No transaction is visible twice or contradicted.")
    total = row_count(reader, VERDICTS, asked)
    stories = _stories(reader, rows)
    listed = [
        (
            Link(row["transaction_id"], story.anchor),
            row["verdict"],
            group_text(row["producer_group"]),
            row["real_topic"] or "-",
            count_text(row["visible_count"]),
            count_text(row["op_count"]),
            count_text(row["contradicting_count"]),
            row["last_timestamp"],
        )
        for row, story in zip(rows, stories, strict=True)
    ]
    head = ("transaction", "verdict", "producer group", "topic", "visible", "ops", "contradicting ends", "last seen")
    note = _left_out(total, "transactions", "txmq verdicts --state duplicated --state conflict", STORIES_TOLD)
    table = Table(f"The newest of {count_text(total)}, each with its story", head, listed, numbers=(4, 5, 6), note=note)
    words = ("Consumers must drop repeats by the transaction id. A conflict is most likely a commit and a rollback.",)
    return Section("contradictions", title, words, tables=[table], stories=stories)


def _stories(reader: WarehouseReader, rows: Sequence[Mapping[str, str]]) -> list[StoryPart]:
    known = traces(reader, sorted({row["transaction_id"] for row in rows}))
    parts = []
    for place, row in enumerate(rows, start=1):
        key = {name: row[name] for name in names.TRANSACTION_KEY}
        told = next((story for story in known[row["transaction_id"]] if story.key == key), Story(key, ()))
        title = f"{row['transaction_id']}, {row['verdict']}, {group_text(row['producer_group'])}"
        events = [(event.time or "-", event.event, event.text) for event in told.events]
        caption = f"born {row['born_timestamp']}, broker {row['broker_name']}"
        parts.append(StoryPart(f"story-{place}", title, Table(caption, ("time", "event", "what happened"), events)))
    return parts


def _drawn(count: int, things: str) -> str:
    return f" The first {BARS_DRAWN} of {count_text(count)} {things} are drawn." if count > BARS_DRAWN else ""


def _left_out(count: int, things: str, command: str, listed: int = ROWS_LISTED) -> str:
    return f"{count_text(count - listed)} more {things}: {command}" if count > listed else ""


def ago(now: datetime, moment: datetime | None) -> str:
    """How long before `now`, in words."""
    return "-" if moment is None else f"{span_text(now - moment)} ago"
