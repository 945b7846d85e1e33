"""`txmq status`: one screen of 80 columns, problems first. Needs deltalake and DuckDB, no JVM."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import typer

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.aligned import WIDTH, aligned
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.pipe import while_read
from txmq_lib.cli.output.said import say_json, say_screen
from txmq_lib.config.setting_types import AUTO
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.errors import EXIT_FINDINGS
from txmq_lib.escaping import line
from txmq_lib.names import GIVEN_UP_IN_A_ROW
from txmq_lib.views.figures import AGE_CLASSES, OLDER
from txmq_lib.views.groups import worst_first
from txmq_lib.views.limits import Limits, Problem
from txmq_lib.views.problems import OF_BROKERS, OF_CONSUMERS, OF_PRODUCERS, problems
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import Status, read_status, span_text

NOTHING_LANDED = "nothing has landed yet: txmq land, or txmq run with sources"
LISTED = 6
RUNS_LISTED = 12
SLOWEST = 3
CLEAR = "\x1b[H\x1b[2J\x1b[3J"
RED, PLAIN = "\x1b[31;1m", "\x1b[0m"


def show_status(options: Options, now: Callable[[], datetime], *, is_json: bool, every: float | None) -> None:
    """The status once, with status 1 past a threshold; or again and again until interrupted."""
    settings = settings_of(options)
    while True:
        uri = location(settings.warehouse)
        status = read_status(
            WarehouseReader(uri),
            now(),
            lag_window_ms=settings.lag_window_ms,
            source_steps=steps_of_sources(settings.sources),
        )
        found = problems(status, limits(settings))
        with while_read():
            if every is not None and sys.stdout.isatty():
                say_screen([CLEAR])
            if is_json:
                say_json(as_json(uri, status, found))
            else:
                say_screen(screen(uri, status, found, is_coloured=sys.stdout.isatty(), hint=pasteable(options)))
        if every is None:
            break
        time.sleep(every)
    if any(problem.limit for problem in found):
        raise typer.Exit(EXIT_FINDINGS)


def limits(settings: Settings) -> Limits:
    """The thresholds that `status` looks at, those that follow from other settings worked out."""
    # What only the pass that counted it can judge is not among them.
    of_all = {field.name: getattr(settings.thresholds, field.name) for field in dataclasses.fields(Limits)}
    of_groups = {
        kind: {name: {key: getattr(own, key) for key in own.model_fields_set} for name, own in of_all[kind].items()}
        for kind in (OF_PRODUCERS, OF_CONSUMERS, OF_BROKERS)
    }
    due = settings.landing_due_ms()
    derived = {"pending_age_ms": settings.past_checks_ms(), "landing_behind_ms": due, "no_landing_ms": due}
    worked_out = {name: span for name, span in derived.items() if of_all[name] == AUTO}
    return Limits(**{**of_all, **of_groups, **worked_out})


def as_json(uri: str, status: Status, found: Sequence[Problem]) -> dict[str, Any]:
    """Everything as one object: the fields of Status under their names, problems, times as ISO 8601 UTC."""
    figures = {"pending_count": status.pending_count, "is_audit_due": status.is_audit_due, **dataclasses.asdict(status)}
    figures["checks"]["answered"] = status.checks.answered
    plain: dict[str, Any] = _plain(
        {"warehouse": uri, "problems": [dataclasses.asdict(each) for each in found], **figures}
    )
    return plain


def _plain(value: Any) -> Any:  # noqa: ANN401 - a JSON value is any
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def screen(
    uri: str,
    status: Status,
    found: Sequence[Problem],
    *,
    is_coloured: bool = False,
    hint: Callable[[str], str] = str,
) -> list[str]:
    """The lines of the screen, none wider than 80 columns but a command or a path.

    hint  puts what names the warehouse into the commands that are shown
    """
    lines = [line(f"txmq status  {_iso(status.now)}  {uri}")]
    lines += [hint(NOTHING_LANDED)] if status.is_empty and not found else _problems(found, is_coloured, hint)
    for section in (_pending, _checks, _verdicts, _offsets, _quarantine, _landing, _passes, _runs):
        lines += ["", *(line(hint(each)) for each in section(status))]
    return lines


def _problems(found: Sequence[Problem], is_coloured: bool, hint: Callable[[str], str]) -> Iterator[str]:
    if not found:
        yield "no problem found"
    for each in found:
        text = f"{'!' if each.limit else '-'} {each.text}" + (f" ({each.limit})" if each.limit else "")
        text, command = map(line, (text, hint(f"txmq {each.command}")))
        apart = 2 if len(text) + 2 + len(command) > WIDTH else WIDTH - len(text) - len(command)
        red, plain = (RED, PLAIN) if is_coloured and each.limit else ("", "")
        if len(text) + 2 + len(command) > WIDTH:
            yield f"{red}{text}{plain}"
            yield f"    {command}"
        else:
            yield f"{red}{text}{plain}{' ' * apart}{command}"


def _pending(status: Status) -> Iterator[str]:
    oldest = status.oldest
    if oldest is None:
        yield "PENDING  0"
        return
    age = span_text(status.now - oldest.oldest_timestamp)
    due = sum(group.due for group in status.pending)
    yield f"PENDING  {status.pending_count:,}   due now {due:,}   oldest {age}: {oldest.oldest_transaction_id}"
    # Only live brokers tell who is connected.
    is_told = any(group.clients is not None for group in status.pending)
    clients = ("clients",) if is_told else ()
    head = ("producer group", *(f"<{name}" for name in AGE_CLASSES), OLDER, "total", "oldest", "asked", *clients)
    rows = [
        (
            group.producer_group or "(none)",
            *(f"{count:,}" for count in group.ages.values()),
            f"{group.count:,}",
            span_text(status.now - group.oldest_timestamp),
            f"{group.most_checks:,}",
            *(("-" if group.clients is None else f"{group.clients:,}",) if is_told else ()),
        )
        for group in status.pending[:LISTED]
    ]
    yield from aligned(head, rows)
    yield from _more(len(status.pending), "groups", "pending")


def _checks(status: Status) -> Iterator[str]:
    checks = status.checks
    answers = ", ".join(f"{decision} {count:,}" for decision, count in checks.answers.items())
    yield (
        f"CHECKS   asked {checks.asked:,}{_ago(status, checks.last_asked_timestamp)}   answered {checks.answered:,}"
        + (f" ({answers})" if answers else "")
    )
    undecided = sum(status.undecided(verdict) for verdict in GIVEN_UP_IN_A_ROW)
    still = f"   {undecided:,} of them undecided" if status.given_up and status.verdicts else ""
    yield f"GIVEN UP {status.given_up:,}{_ago(status, status.last_given_up_timestamp)}{still}"


def _verdicts(status: Status) -> Iterator[str]:
    due = "  txmq audit is due: other passes came after it" if status.is_audit_due else ""
    yield f"VERDICTS{due}" if status.verdicts else "VERDICTS none; txmq audit gives them"
    rows = [(row.verdict, f"{row.count:,}", f"+{row.last_pass:,}" if row.last_pass else "") for row in status.verdicts]
    yield from aligned(("verdict", "count", "last pass"), rows)


def _offsets(status: Status) -> Iterator[str]:
    yield "OFFSETS" if status.offsets else "OFFSETS  none"
    rows = [
        (
            group.consumer_group,
            group.broker_name,
            f"{group.queues:,}",
            f"{group.lag:,}",
            f"{group.rewinds:,}",
            " ".join(f"{state} {count:,}" for state, count in worst_first(group.lag_states)),
        )
        for group in status.offsets[:LISTED]
    ]
    yield from aligned(("consumer group", "broker", "queues", "lag", "rewinds", "states"), rows, text=(0, 1, 5))
    yield from _more(len(status.offsets), "groups", "offsets --sort lag:desc")


def _quarantine(status: Status) -> Iterator[str]:
    quarantined = sum(row.count for row in status.quarantine)
    yield f"QUARANTINE  {quarantined:,}"
    rows = [
        (row.reason, f"{row.count:,}", span_text(status.now - row.newest_timestamp) + " ago")
        for row in status.quarantine[:LISTED]
    ]
    yield from aligned(("reason", "count", "newest"), rows)
    yield from _more(len(status.quarantine), "reasons", "quarantine")


def _landing(status: Status) -> Iterator[str]:
    yield "LANDING" if status.landed else "LANDING  nothing has landed"
    rows = [
        (
            source.broker_name,
            _iso(source.read_to_timestamp) if source.read_to_timestamp else "-",
            span_text(status.now - source.read_to_timestamp) if source.read_to_timestamp else "-",
            "-" if source.set_ups is None else source.set_ups or "as by default",
        )
        for source in status.landed[:LISTED]
    ]
    yield from aligned(("broker", "read to", "behind", "set up"), rows)
    yield from _more(len(status.landed), "brokers", "passes --job land")


def _passes(status: Status) -> Iterator[str]:
    yield "PASSES" if status.passes else "PASSES   none"
    rows = []
    for last in status.passes:
        slowest = sorted(last.seconds.items(), key=lambda step: -step[1])
        steps = ", ".join(f"{step} {taken:.1f}" for step, taken in slowest[:SLOWEST])
        rest = sum(taken for _, taken in slowest[SLOWEST:])
        rows.append(
            (
                last.job,
                "-" if last.pass_number is None else str(last.pass_number),
                span_text(status.now - last.committed_timestamp) if last.committed_timestamp else "-",
                f"{sum(last.seconds.values()):.1f}",
                steps + (f", others {rest:.1f}" if rest else ""),
            )
        )
    yield from aligned(("job", "pass", "ago", "seconds", "of these"), rows, text=(0, 4))


def _runs(status: Status) -> Iterator[str]:
    yield "RUNS" if status.runs else "RUNS     none"
    rows = [
        (
            step.step,
            span_text(status.now - step.last_done) if step.last_done else "-",
            span_text(status.now - step.last_failed) if step.last_failed else "-",
            (step.error or "-").partition(":")[0],
        )
        for step in status.runs[:RUNS_LISTED]
    ]
    yield from aligned(("command, source or job", "done", "failed", "by"), rows, text=(0, 3))
    yield from _more(len(status.runs), "steps", "runs", RUNS_LISTED)


def _more(count: int, things: str, command: str, listed: int = LISTED) -> Iterator[str]:
    if count > listed:
        yield f"  and {count - listed:,} more {things}: txmq {command}"


def _ago(status: Status, moment: datetime | None) -> str:
    return f", last {span_text(status.now - moment)} ago" if moment else ""


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
