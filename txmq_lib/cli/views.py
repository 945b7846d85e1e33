"""The read views and `trace` as commands. Bodies import deltalake and DuckDB only when they run; none starts a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from txmq_lib.cli.formats import TABLE, VIEWS_PANEL, Brokers, Format, Limit, OutputFormat, Values
from txmq_lib.cli.given import given
from txmq_lib.errors import UsageError

Groups = Annotated[
    Values, typer.Option("--group", metavar="NAME", help="Only of this producer group; may be repeated.")
]
ConsumerGroups = Annotated[
    Values, typer.Option("--group", metavar="NAME", help="Only of this consumer group; may be repeated.")
]
Topics = Annotated[Values, typer.Option("--topic", metavar="NAME", help="Only of this real topic; may be repeated.")]
TransactionIds = Annotated[
    Values, typer.Option("--transaction-id", metavar="ID", help="Only of this transaction; may be repeated.")
]
States = Annotated[Values, typer.Option("--state", metavar="STATE", help="Only in this state; may be repeated.")]
Reasons = Annotated[Values, typer.Option("--reason", metavar="CODE", help="Only with this reason; may be repeated.")]
AskedFor = Annotated[
    Values, typer.Option("--asked-for", metavar="WHAT", help="Only those to a check, or about a given_up one.")
]
Jobs = Annotated[Values, typer.Option("--job", metavar="JOB", help="Only of this job; may be repeated.")]
TransactionId = Annotated[str, typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEY of the message.")]
EventFormat = Annotated[OutputFormat, typer.Option("--format", help="table, or json: one object per event.")]


def add_to(app: typer.Typer) -> None:
    """Register the views."""
    views = (pending, checks, answers, given_up, decisions, messages, ends, offsets, verdicts, passes, quarantine)
    for command in (*views, trace):
        app.command(command.__name__.replace("_", "-"), rich_help_panel=VIEWS_PANEL)(command)


def pending(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """Undecided transactions, the oldest first: how often asked, when next due."""
    _show(
        ctx,
        "pending",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id},
    )


def checks(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """CHECK_TRANSACTION_STATE requests raised, the newest first."""
    _show(
        ctx,
        "checks",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id},
    )


def answers(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    state: States = None,
    reason: Reasons = None,
    asked_for: AskedFor = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """What `resolve` was told, the newest first: commit, rollback, unknown; or why there was no answer."""
    _show(
        ctx,
        "answers",
        format_,
        limit,
        {
            "broker": broker,
            "group": group,
            "topic": topic,
            "transaction-id": transaction_id,
            "state": state,
            "reason": reason,
            "asked-for": asked_for,
        },
    )


def given_up(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    reason: Reasons = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """Messages given up (TRANS_CHECK_MAX_TIME_TOPIC), the newest first."""
    _show(
        ctx,
        "given-up",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id, "reason": reason},
    )


def decisions(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    state: States = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """What was decided by hand, the newest first: who, when, why."""
    _show(
        ctx,
        "decisions",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id, "state": state},
    )


def messages(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """Visible messages, the newest first."""
    _show(
        ctx,
        "messages",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id},
    )


def ends(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    state: States = None,
    reason: Reasons = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """What became of every END_TRANSACTION, the newest first: accepted, repeated, contradicting, refused, held."""
    _show(
        ctx,
        "ends",
        format_,
        limit,
        {
            "broker": broker,
            "group": group,
            "topic": topic,
            "transaction-id": transaction_id,
            "state": state,
            "reason": reason,
        },
    )


def offsets(
    ctx: typer.Context,
    broker: Brokers = None,
    group: ConsumerGroups = None,
    topic: Topics = None,
    state: States = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """Next offset and lag of every consumer queue; state ok, beyond_end, below_oldest or unknown."""
    _show(ctx, "offsets", format_, limit, {"broker": broker, "group": group, "topic": topic, "state": state})


def verdicts(
    ctx: typer.Context,
    broker: Brokers = None,
    group: Groups = None,
    topic: Topics = None,
    transaction_id: TransactionIds = None,
    state: States = None,
    format_: Format = TABLE,
    limit: Limit = None,
) -> None:
    """The verdict of every transaction, the newest first."""
    _show(
        ctx,
        "verdicts",
        format_,
        limit,
        {"broker": broker, "group": group, "topic": topic, "transaction-id": transaction_id, "state": state},
    )


def passes(
    ctx: typer.Context, job: Jobs = None, state: States = None, format_: Format = TABLE, limit: Limit = None
) -> None:
    """Passes started, committed and abandoned, the newest first."""
    _show(ctx, "passes", format_, limit, {"job": job, "state": state})


def quarantine(
    ctx: typer.Context, broker: Brokers = None, reason: Reasons = None, format_: Format = TABLE, limit: Limit = None
) -> None:
    """Inputs that could not be used, the newest first, each with its reason."""
    _show(ctx, "quarantine", format_, limit, {"broker": broker, "reason": reason})


def trace(
    ctx: typer.Context, transaction_id: TransactionId, broker: Brokers = None, format_: EventFormat = TABLE
) -> None:
    """Everything known about one transaction, in time order."""
    from txmq_lib.cli.show import show_trace

    if format_ is OutputFormat.csv:
        raise UsageError("trace has no csv: its events differ in their columns; take --format json")
    show_trace(given(ctx), transaction_id, brokers=broker or (), format_=format_)


def _show(ctx: typer.Context, command: str, format_: OutputFormat, limit: int | None, asked: dict[str, Values]) -> None:
    from txmq_lib.cli.show import show_view

    show_view(given(ctx), command, asked, format_, limit)
