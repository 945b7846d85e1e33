"""The sections about transactions that nobody has decided: undecided, asked about, given up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from txmq_lib.report import charts, history
from txmq_lib.report.chart import AGES, HUES, Chart
from txmq_lib.report.parts import Figure, Section, Table, count_text, counted, group_text, time_text
from txmq_lib.report.period import Period
from txmq_lib.report.shared import BARS_DRAWN, ROWS_LISTED, drawn_note, figure_over_time, left_out
from txmq_lib.views.figures import AGE_CLASSES, OLDER, PendingGroup
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import Status, span_text


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
            named = {classes[name]: line for name, line in lines.items()}
            summary = f"Undecided at once at most: {counted(peak, 'transaction')}."
            figures.append(figure_over_time("Undecided over time by age, transactions", summary, named, period, AGES))
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
        + drawn_note(len(groups), "groups")
    )
    series = list(classes.values())
    spec = charts.bars(rows, "transactions", series, AGES)
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
        note=left_out(len(groups), "groups", "txmq pending"),
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
    note = left_out(len(status.pending), "groups", "txmq pending")
    return Table("Producer groups with undecided transactions", head, rows, numbers=(1, 2, 3, 4), note=note)


def checks_section(reader: WarehouseReader, status: Status) -> Section:
    """Checks per producer group, by who asked."""
    counts = history.check_counts(reader)
    words = (_asked_in_words(status),)
    if not counts:
        return Section("checks", "Checks", words=words)
    series = ("by txmq", "by brokers")
    rows = [(group_text(each.producer_group), "by txmq", float(each.by_txmq)) for each in counts[:BARS_DRAWN]]
    rows += [(group_text(each.producer_group), "by brokers", float(each.by_broker)) for each in counts[:BARS_DRAWN]]
    most = counts[0]
    summary = (
        f"{group_text(most.producer_group)} was asked most: {counted(most.by_txmq + most.by_broker, 'check')} about"
        f" {counted(most.transactions, 'transaction')}." + drawn_note(len(counts), "groups")
    )
    spec = charts.bars(rows, "checks", series, HUES)
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
        note=left_out(len(counts), "groups", "txmq checks"),
    )
    return Section(
        "checks",
        "Checks",
        words=words,
        figures=[Figure(Chart("Checks per producer group, checks", summary, spec, height), table)],
    )


def _asked_in_words(status: Status) -> str:
    checks = status.checks
    answers = ", ".join(f"{count_text(count)} {decision}" for decision, count in checks.answers.items())
    words = f"txmq has asked {counted(checks.asked, 'time')}; {counted(checks.answered, 'end')} answered a check"
    return f"{words} ({answers})." if answers else f"{words}."


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
    summary = ", ".join(f"{count_text(sum(e.count for e in counts if e.reason == why))} {why}" for why in reasons)
    chart = Chart(
        "Given up per producer group and reason, messages",
        f"{counted(sum(by_group.values()), 'message')} given up: {summary}." + drawn_note(len(by_group), "groups"),
        charts.bars(rows, "messages", reasons, (HUES[1], HUES[4], HUES[0])),
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
        note=left_out(len(counts), "rows", "txmq given-up"),
    )
    became = _became(reader)
    words = (
        "check_max: asked as often as the settings allow; expired: older than the reserved time. A broker keeps no"
        " reason. Giving up is no rollback: what is DISCARDED was decided by nobody.",
    )
    return Section("given-up", "Given up", words, [Figure(chart, table)], [became] if became.rows else [])


def _became(reader: WarehouseReader) -> Table:
    return Table(
        "What became of transactions that were given up",
        ("verdict", "transactions"),
        [(verdict, count_text(count)) for verdict, count in history.verdicts_of_given_up(reader).items()],
        numbers=(1,),
    )
