"""The commands `settle` and `resume`: they show what they would do, and do it with `--apply` only."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

import typer

from txmq_lib.cli.clock import Now, moment, wall_clock
from txmq_lib.cli.formats import DECISIONS_PANEL, TABLE, Brokers, Format, Values
from txmq_lib.cli.given import given
from txmq_lib.errors import UsageError
from txmq_lib.names import COMMIT, ROLLBACK

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without it the plan is shown and nothing is written.")]
TransactionId = Annotated[str, typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEY of the message.")]
TransactionIds = Annotated[
    list[str] | None, typer.Argument(metavar="TRANSACTION_ID", help="UNIQ_KEYs of given-up messages.")
]
Commit = Annotated[bool, typer.Option("--commit", help="Its local transaction committed: the message becomes visible.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Its local transaction rolled back.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with who and when.")]
ReasonIfAny = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; recorded with who and when.")]
Born = Annotated[
    str | None, typer.Option("--born", metavar="T", help="Born time of the half, where several have the id.")
]
Groups = Annotated[Values, typer.Option("--group", metavar="NAME", help="Given-up ones of this producer group.")]
All = Annotated[bool, typer.Option("--all", help="Every given-up one.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (settle, resume):
        app.command(rich_help_panel=DECISIONS_PANEL)(command)


def settle(
    ctx: typer.Context,
    transaction_id: TransactionId,
    reason: Reason,
    commit: Commit = False,
    rollback: Rollback = False,
    broker: Brokers = None,
    born: Born = None,
    apply: Apply = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """End one undecided transaction by hand; the next reconcile applies it."""
    from txmq_lib.cli.deciding import run_decision
    from txmq_lib.pipeline.decisions import Wanted
    from txmq_lib.rules.moments import epoch_ms

    if commit == rollback:
        raise UsageError("settle needs one of --commit and --rollback")
    if not reason.strip():
        raise UsageError("settle needs a --reason: it is recorded")
    wanted = Wanted(
        transaction_ids=(transaction_id,),
        brokers=tuple(broker or ()),
        born_ms=None if born is None else epoch_ms(moment(born)),
        decision=COMMIT if commit else ROLLBACK,
        reason=reason,
        decided_by=_who(),
    )
    run_decision(given(ctx), wanted, now=moment(now), wall_clock=wall_clock, apply=apply, format_=format_)


def resume(
    ctx: typer.Context,
    transaction_ids: TransactionIds = None,
    group: Groups = None,
    every: All = False,
    broker: Brokers = None,
    reason: ReasonIfAny = None,
    apply: Apply = False,
    now: Now = None,
    format_: Format = TABLE,
) -> None:
    """Put given-up transactions back under check, with check times 0."""
    from txmq_lib.cli.deciding import run_decision
    from txmq_lib.pipeline.decisions import Wanted

    if bool(transaction_ids) + bool(group) + every != 1:
        raise UsageError("resume needs transaction ids, or --group, or --all")
    wanted = Wanted(
        transaction_ids=tuple(transaction_ids or ()),
        groups=tuple(group or ()),
        brokers=tuple(broker or ()),
        reason=reason,
        decided_by=_who(),
    )
    run_decision(given(ctx), wanted, now=moment(now), wall_clock=wall_clock, apply=apply, format_=format_)


def _who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"
