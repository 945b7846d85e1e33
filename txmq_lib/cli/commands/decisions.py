"""The commands `settle`, `resume`, `hold`, `release` and `resend`: they show what they would do; `--apply` does it."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from txmq_lib.cli.options import Options, options_of, settings_of
from txmq_lib.cli.output.formats import DECISIONS_PANEL, TABLE, Brokers, Format, OutputFormat, Values
from txmq_lib.cli.run.clock import EPOCH, Now, moment, wall_clock
from txmq_lib.cli.run.name_servers import NameServersIfAny as NameServers
from txmq_lib.cli.run.name_servers import name_servers_of
from txmq_lib.errors import UsageError
from txmq_lib.files.started_by import started_by
from txmq_lib.names import ACTION_HOLD, ACTION_RELEASE, ACTION_RESEND, COMMIT, ROLLBACK

if TYPE_CHECKING:
    from txmq_lib.pipeline.decision_request import DecisionRequest

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without it the plan is shown and nothing is written.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan alone; so it does without --apply, too.")]
TransactionId = Annotated[str, typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEY of the message.")]
TransactionIds = Annotated[
    list[str] | None, typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEYs of given-up messages.")
]
SomeIds = Annotated[list[str], typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEYs of the messages.")]
Commit = Annotated[bool, typer.Option("--commit", help="Its local transaction committed: the message becomes visible.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Its local transaction rolled back.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with who and when.")]
ReasonIfAny = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; recorded with who and when.")]
Born = Annotated[
    str | None, typer.Option("--born", metavar="T", help="Born time of the half, where several have the id.")
]
Groups = Annotated[Values, typer.Option("--group", metavar="NAME", help="Given-up ones of this producer group.")]
ToBroker = Annotated[
    bool, typer.Option("--to-broker", help="Send it to the broker that decides; with --apply, else the plan is shown.")
]
All = Annotated[bool, typer.Option("--all", help="Every given-up one.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (settle, resume, hold, release, resend):
        app.command(rich_help_panel=DECISIONS_PANEL)(command)


def settle(
    ctx: typer.Context,
    transaction_id: TransactionId,
    reason: Reason,
    commit: Commit = False,
    rollback: Rollback = False,
    broker: Brokers = None,
    born: Born = None,
    to_broker: ToBroker = False,
    namesrv: NameServers = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """End one undecided transaction by hand; the next reconcile applies it."""
    from txmq_lib.cli.run.decisions import run_decision
    from txmq_lib.pipeline.decision_request import DecisionRequest

    require_one_of(apply, dry_run)
    if commit == rollback:
        raise UsageError("settle needs one of --commit and --rollback")
    if not reason.strip():
        raise UsageError("settle needs a --reason: it is recorded")
    request = DecisionRequest(
        transaction_ids=(transaction_id,),
        brokers=tuple(broker or ()),
        born_ms=None if born is None else (moment(born) - EPOCH) // timedelta(milliseconds=1),
        decision=COMMIT if commit else ROLLBACK,
        reason=reason,
        decided_by=who(),
    )
    options, at = options_of(ctx), moment(now)
    servers = name_servers_of(options, namesrv) if to_broker else []
    run_decision(options, request, now=at, wall_clock=wall_clock, apply=apply, format_=format_, sends_to=servers)
    if to_broker and apply:
        send(options, "settle", request, servers, now=at, apply=apply, format_=format_)


def resume(
    ctx: typer.Context,
    transaction_ids: TransactionIds = None,
    group: Groups = None,
    every: All = False,
    broker: Brokers = None,
    reason: ReasonIfAny = None,
    to_broker: ToBroker = False,
    namesrv: NameServers = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """Put given-up transactions back under check, with check times 0."""
    from txmq_lib.cli.run.decisions import run_decision
    from txmq_lib.pipeline.decision_request import DecisionRequest

    require_one_of(apply, dry_run)
    if bool(transaction_ids) + bool(group) + every != 1:
        raise UsageError("resume needs transaction ids, or --group, or --all")
    request = DecisionRequest(
        transaction_ids=tuple(transaction_ids or ()),
        groups=tuple(group or ()),
        brokers=tuple(broker or ()),
        reason=reason,
        decided_by=who(),
    )
    options, at = options_of(ctx), moment(now)
    if to_broker:
        send(options, "resume", request, name_servers_of(options, namesrv), now=at, apply=apply, format_=format_)
    else:
        run_decision(options, request, now=at, wall_clock=wall_clock, apply=apply, format_=format_)


def hold(
    ctx: typer.Context,
    transaction_ids: SomeIds,
    reason: Reason,
    broker: Brokers = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """Ask nobody about undecided transactions, and do not give them up, until they are released (role engine)."""
    require_one_of(apply, dry_run)
    if not reason.strip():
        raise UsageError("hold needs a --reason: it is recorded")
    _hold_or_release(ctx, ACTION_HOLD, transaction_ids, reason, broker, now, apply=apply, format_=format_)


def release(
    ctx: typer.Context,
    transaction_ids: SomeIds,
    reason: ReasonIfAny = None,
    broker: Brokers = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """Ask about held transactions again, from where their checks stood."""
    require_one_of(apply, dry_run)
    _hold_or_release(ctx, ACTION_RELEASE, transaction_ids, reason, broker, now, apply=apply, format_=format_)


def resend(
    ctx: typer.Context,
    transaction_ids: SomeIds,
    reason: Reason,
    broker: Brokers = None,
    namesrv: NameServers = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """Send the body of given-up transactions to their real topic again, through their live broker; each once."""
    from txmq_lib.cli.run.before_spark import require_landed
    from txmq_lib.pipeline.decision_request import DecisionRequest

    require_one_of(apply, dry_run)
    if not reason.strip():
        raise UsageError("resend needs a --reason: it is recorded")
    request = DecisionRequest(
        transaction_ids=tuple(transaction_ids), brokers=tuple(broker or ()), reason=reason, decided_by=who()
    )
    options = options_of(ctx)
    servers = name_servers_of(options, namesrv, what="resend")
    require_landed(settings_of(options), "transaction_id", transaction_ids, "no half message of transaction")
    send(options, ACTION_RESEND, request, servers, now=moment(now), apply=apply, format_=format_)


def _hold_or_release(
    ctx: typer.Context,
    decision: str,
    transaction_ids: list[str],
    reason: str | None,
    brokers: list[str] | None,
    now: str | None,
    *,
    apply: bool,
    format_: OutputFormat,
) -> None:
    from txmq_lib.cli.run.decisions import run_decision
    from txmq_lib.pipeline.decision_request import DecisionRequest

    request = DecisionRequest(
        transaction_ids=tuple(transaction_ids),
        brokers=tuple(brokers or ()),
        decision=decision,
        reason=reason,
        decided_by=who(),
    )
    run_decision(options_of(ctx), request, now=moment(now), wall_clock=wall_clock, apply=apply, format_=format_)


def send(
    options: Options,
    requested_for: str,
    request: DecisionRequest,
    servers: list[str],
    *,
    now: datetime,
    apply: bool,
    format_: OutputFormat,
) -> None:
    """Send to brokers what is planned for them, or show it; status 1 where one did not accept."""
    from txmq_lib.cli.run.sending import send_requests, show_requests
    from txmq_lib.pipeline.decision_request import ToSend

    to_send = ToSend(requested_for, request)
    if apply:
        send_requests(options, to_send, name_servers=servers, now=now, wall_clock=wall_clock, environ=os.environ)
    else:
        show_requests(options, to_send, now=now, format_=format_)


def require_one_of(apply: bool, dry_run: bool) -> None:
    """UsageError where something is to be done and not to be done."""
    if apply and dry_run:
        raise UsageError("--apply does it and --dry-run only shows it: give one of them")


def who() -> str:
    return started_by()
