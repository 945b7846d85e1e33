"""The sections about consumers and about txmq itself: offsets, passes and their cost, quarantine, landing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from txmq_lib.report import charts, cost
from txmq_lib.report.chart import HUES, Chart
from txmq_lib.report.offset_history import GROUPS_DRAWN, Line, OffsetHistory, Queue, offset_history
from txmq_lib.report.parts import Figure, Section, Table, count_text, counted, time_text
from txmq_lib.report.period import Period
from txmq_lib.report.shared import ago
from txmq_lib.views.groups import worst_first
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import Status, span_text

QUEUES_DRAWN = 8
ROWS_LISTED = 40


def offset_section(reader: WarehouseReader, period: Period, status: Status, window: LagWindow) -> Section:
    """Consumer groups and their queues: lag now and over time, rewinds marked."""
    if not status.offsets:
        return Section("offsets", "Consumer offsets", empty="No consumer offsets have landed.")
    history = offset_history(reader, period, status.offsets, window)
    figures = [*_group_figures(history, period), *_queue_figures(history.queues, period)]
    tables = [_groups(status), _queues(history.queues), *_rewinds(history.queues)]
    words = ("Lag is the messages stored and not consumed yet. " + _drawn_lag(history, is_drawn=bool(figures)),)
    return Section("offsets", "Consumer offsets", words, figures, tables)


def _drawn_lag(history: OffsetHistory, *, is_drawn: bool) -> str:
    if is_drawn:
        return (
            f"Over time it follows from offset reports and store times; it is drawn for the {GROUPS_DRAWN} groups that"
            " lag most. A dashed red line is a rewind: an offset set back."
        )
    if any(value is not None for line in history.groups.values() for value in line):
        return "No group was behind at the end of any part of the period."
    return "There are no offset reports in this period, from which it could be drawn over time."


def _group_figures(history: OffsetHistory, period: Period) -> list[Figure]:
    brokers = {broker_name for broker_name, _ in history.groups}
    lines: dict[str, Line] = {
        group if len(brokers) == 1 else f"{group} ({broker_name})": line
        for (broker_name, group), line in history.groups.items()
    }
    if not any(map(any, lines.values())):
        return []
    title = "Lag of consumer groups over time, messages"
    most = max(lines, key=lambda name: lines[name][-1] or 0)
    summary = f"{most} is {counted(lines[most][-1] or 0, 'message')} behind at the end."
    spec = charts.lines_over_time(lines, period.ends(), "messages behind", HUES)
    return [Figure(Chart(title, summary, spec), _lag_table(title, lines, period))]


def _queue_figures(queues: Sequence[Queue], period: Period) -> list[Figure]:
    figures = []
    for queue in [each for each in queues if _is_telling(each)][:QUEUES_DRAWN]:
        broker_name, group, topic, queue_id = queue.key
        title = f"Lag of {group} in {topic} queue {queue_id}, messages"
        times = "once" if len(queue.rewinds) == 1 else f"{len(queue.rewinds)} times"
        summary = f"On {broker_name}." + (f" Set back {times}." if queue.rewinds else "")
        marks = [rewind.at for rewind in queue.rewinds]
        lines = {"messages behind": queue.behind}
        spec = charts.lines_over_time(lines, period.ends(), "messages behind", HUES, marks)
        figures.append(Figure(Chart(title, summary, spec, height=170), _lag_table(title, lines, period), is_small=True))
    return figures


def _is_telling(queue: Queue) -> bool:
    return bool(queue.rewinds) or any(queue.behind)


def _lag_table(title: str, lines: dict[str, Line], period: Period) -> Table:
    rows = [
        (time_text(at), *("-" if line[place] is None else count_text(line[place] or 0) for line in lines.values()))
        for place, at in enumerate(period.ends())
        if any(line[place] is not None for line in lines.values())
    ]
    return Table(title, ("at", *lines), rows, numbers=range(1, len(lines) + 1))


def _groups(status: Status) -> Table:
    rows = [
        (
            group.consumer_group,
            group.broker_name,
            count_text(group.queues),
            count_text(group.lag),
            count_text(group.rewinds),
            ", ".join(f"{state} {count_text(count)}" for state, count in worst_first(group.lag_states)),
        )
        for group in status.offsets[:ROWS_LISTED]
    ]
    head = ("consumer group", "broker", "queues", "lag", "rewinds", "states of queues")
    note = f"{count_text(len(status.offsets) - ROWS_LISTED)} more groups" if len(status.offsets) > ROWS_LISTED else ""
    return Table("Consumer groups now, lag in messages", head, rows, numbers=(2, 3, 4), note=note)


def _queues(queues: Sequence[Queue]) -> Table:
    rows = [
        (
            queue.key[1],
            queue.key[2],
            str(queue.key[3]),
            _known(queue.now["next_offset"]),
            _known(queue.now["lag"]),
            _waited(queue.now["lag_ms"]),
            queue.now["lag_state"],
            count_text(queue.now["rewind_count"]),
            queue.now["updated_timestamp"] or "-",
        )
        for queue in queues[:ROWS_LISTED]
    ]
    head = ("consumer group", "topic", "queue", "next offset", "lag", "waiting", "state", "rewinds", "last moved")
    left = len(queues) - ROWS_LISTED
    note = f"{count_text(left)} more queues: txmq offsets --sort lag:desc" if left > 0 else ""
    return Table("Queues of these groups, the worst first", head, rows, numbers=(2, 3, 4, 5, 7), note=note)


def _known(number: int | None) -> str:
    return "-" if number is None else count_text(number)


def _waited(span_ms: int | None) -> str:
    return "-" if span_ms is None else span_text(timedelta(milliseconds=span_ms))


def _rewinds(queues: Sequence[Queue]) -> list[Table]:
    rewinds = sorted(((rewind, queue) for queue in queues for rewind in queue.rewinds), key=lambda pair: pair[0].at)
    rows = [
        (
            time_text(rewind.at),
            *(queue.key[1], queue.key[2], str(queue.key[3])),
            count_text(rewind.from_offset),
            count_text(rewind.to_offset),
            rewind.client_id or "-",
        )
        for rewind, queue in rewinds[-ROWS_LISTED:]
    ]
    head = ("at", "consumer group", "topic", "queue", "from offset", "to offset", "client")
    note = f"the newest {ROWS_LISTED} of {count_text(len(rewinds))}" if len(rewinds) > ROWS_LISTED else ""
    return [Table("Rewinds in this period", head, rows, numbers=(3, 4, 5), note=note)] if rows else []


def pass_section(reader: WarehouseReader, period: Period, status: Status) -> Section:
    """Passes and what they cost, in seconds."""
    costs = cost.job_costs(reader, period)
    if not costs:
        return Section("passes", "Passes and their cost", empty="No pass has been committed in this period.")
    lines = cost.cost_over_time(reader, period)
    title = "Passes over time by job, seconds"
    dearest = costs[0]
    taken = f"{count_text(round(dearest.total, 1))} s in {counted(dearest.passes, 'pass', 'passes')}"
    summary = f"{dearest.job} took most: {taken}."
    ends = period.ends()
    rows = [
        (time_text(at - period.step), *(count_text(round(line[place], 2)) for line in lines.values()))
        for place, at in enumerate(ends)
        if any(line[place] for line in lines.values())
    ]
    table = Table(title, ("from", *lines), rows, numbers=range(1, len(lines) + 1))
    chart = Chart(title, summary, charts.stacked_bars(lines, ends, "seconds", HUES))
    return Section(
        "passes",
        "Passes and their cost",
        words=(f"Passes from {time_text(period.begin)} to {time_text(period.end)}, by the wall clock.",),
        figures=[Figure(chart, table)],
        tables=[_jobs(status, costs), _steps(reader, period)],
    )


def _jobs(status: Status, costs: Sequence[cost.JobCost]) -> Table:
    unfinished = {last.job: last.unfinished_number for last in status.passes}
    rows = [
        (
            each.job,
            count_text(each.passes),
            *(count_text(round(seconds, 2)) for seconds in (each.total, each.median, each.longest)),
            time_text(each.newest_timestamp),
            "-" if unfinished.get(each.job) is None else f"pass {unfinished[each.job]}",
        )
        for each in costs
    ]
    head = ("job", "passes", "seconds", "median", "longest", "newest", "not ended")
    return Table("Committed passes per job, seconds", head, rows, numbers=(1, 2, 3, 4))


def _steps(reader: WarehouseReader, period: Period) -> Table:
    rows = [
        (each.job, each.step, count_text(each.passes), count_text(round(each.total, 2)))
        for each in cost.step_costs(reader, period)
    ]
    return Table("The dearest steps, seconds", ("job", "step", "passes", "seconds"), rows, numbers=(2, 3))


def intake_section(status: Status) -> Section:
    """What landed, how far, and what could not be used."""
    landing = Table(
        "Landing per broker",
        ("broker", "read to", "behind"),
        [
            (each.broker_name, time_text(each.read_to_timestamp), ago(status.now, each.read_to_timestamp))
            for each in status.landed
        ],
    )
    quarantine = Table(
        "Records in quarantine by reason",
        ("reason", "records", "newest"),
        [(each.reason, count_text(each.count), time_text(each.newest_timestamp)) for each in status.quarantine],
        numbers=(1,),
    )
    orphans = Table(
        "Committed messages without a half",
        ("broker", "topic", "half never seen", "half before all that was read"),
        [
            (each.broker_name, each.topic, count_text(each.count), count_text(each.before_first))
            for each in status.orphans
        ],
        numbers=(2, 3),
    )
    tables = [table for table in (landing, quarantine, orphans) if table.rows]
    return Section("intake", "Landing and quarantine", tables=tables, empty="Nothing has landed.")
