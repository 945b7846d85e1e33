"""The read views and `trace` as commands. Bodies import deltalake and DuckDB only when they run; none starts a JVM."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txmq_lib import names
from txmq_lib.cli.options import options_of
from txmq_lib.cli.output.formats import TABLE, VIEWS_PANEL, Brokers, Format, Limit, OutputFormat, Values
from txmq_lib.cli.run.clock import SINCE_HELP, ClockNow, moment, span, time_ago
from txmq_lib.errors import UsageError
from txmq_lib.views.catalogue import VIEWS
from txmq_lib.views.column_sql import BodyForm
from txmq_lib.views.view import View

if TYPE_CHECKING:
    from txmq_lib.views.select import ViewQuery

TransactionId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="Transaction id (UNIQ_KEY), or a message id in either form.")
]
HalfOffset = Annotated[
    int | None, typer.Option("--half-offset", min=0, metavar="N", help="The transaction of this half queue offset.")
]
EventFormat = Annotated[OutputFormat, typer.Option("--format", help="table, or json: one object per event.")]

FILTERS = {
    "broker": ("NAME", "Only of this broker"),
    "group": ("NAME", "Only of this producer group"),
    "topic": ("NAME", "Only of this real topic"),
    "transaction-id": ("ID", "Only of this transaction"),
    "state": ("STATE", "Only in this state"),
    "lag-state": ("STATE", "Only where the group does this"),
    "reason": ("CODE", "Only with this reason"),
    "asked-for": ("WHAT", "Only those to a check, or about a given_up one"),
    "job": ("JOB", "Only of this job"),
    "command": ("COMMAND", "Only of this command"),
}
ASKED_FOR = (names.ASKED_FOR_CHECK, names.ASKED_FOR_GIVEN_UP)
CONSUMER_GROUP = ("NAME", "Only of this consumer group")
Keys = Annotated[Values, typer.Option("--key", metavar="KEY", help="Only with this message key; may be repeated.")]
OlderThan = Annotated[str | None, typer.Option("--older-than", metavar="SPAN", help="Only older: 90s, 10m, 2h, 3d.")]
Since = Annotated[str | None, typer.Option("--since", metavar="T", help=SINCE_HELP)]
Sort = Annotated[
    Values, typer.Option("--sort", metavar="COLUMN[:desc]", help="Order by this column first; may be repeated.")
]
Queue = Annotated[
    int | None, typer.Option("--queue", min=0, metavar="Q", help="Only of queues with this number, by offset.")
]
FromOffset = Annotated[
    int | None,
    typer.Option("--from-offset", min=0, metavar="N", help="Only from this offset on; takes one --topic and --queue."),
]
Wide = Annotated[bool, typer.Option("--wide", help="A table of every column, whatever the width; bodies with --body.")]
Body = Annotated[BodyForm | None, typer.Option("--body", help="Show bodies in this form; JSON and CSV have base64.")]


def add_to(app: typer.Typer) -> None:
    """Register the views."""
    for view in VIEWS:
        app.command(view.command, help=view.doc, rich_help_panel=VIEWS_PANEL)(_command(view))
    app.command("trace", rich_help_panel=VIEWS_PANEL)(trace)


def trace(
    ctx: typer.Context,
    transaction_id: TransactionId = None,
    key: Keys = None,
    half_offset: HalfOffset = None,
    broker: Brokers = None,
    format_: EventFormat = TABLE,
) -> None:
    """Everything known about one transaction, in time order; found by an id, a message key or a half offset."""
    from txmq_lib.cli.output.show import TraceQuery, show_trace

    query = TraceQuery(transaction_id, tuple(key or ()), half_offset)

    if format_ is OutputFormat.csv:
        raise UsageError("trace has no csv: its events differ in their columns; take --format json")
    show_trace(options_of(ctx), query, brokers=broker or (), format_=format_)


def _command(view: View) -> Callable[..., None]:
    """The command of one view, with the options that the view can take."""

    def show(ctx: typer.Context, **options: Any) -> None:  # noqa: ANN401 - as `_options` declares them
        from txmq_lib.cli.output.show import Shown, show_view

        now = moment(options["now"])
        shown = Shown(options["format_"], is_wide=options["wide"], body=options.get("body"))
        show_view(options_of(ctx), view, _query(view, options, now), now, shown)

    parameters = {"ctx": typer.Context, **_options(view)}
    show.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=DEFAULTS.get(name, inspect.Parameter.empty if name == "ctx" else None),
                annotation=annotation,
            )
            for name, annotation in parameters.items()
        ]
    )
    show.__annotations__ = parameters
    return show


def _query(view: View, options: Mapping[str, Any], now: datetime) -> ViewQuery:
    """What the options ask of a view; UsageError where it cannot be asked."""
    from txmq_lib.views.select import ViewQuery, checked_sort, checked_states

    filters = {name: options[_parameter(name)] for name in view.filters if options[_parameter(name)]}
    if "state" in filters:
        filters["state"] = checked_states(view, filters["state"], view.states)
    if "lag-state" in filters:
        filters["lag-state"] = checked_states(view, filters["lag-state"], names.LAG_STATES)
    older_than = options["older_than"]
    return ViewQuery(
        filters=filters,
        since=None if options["since"] is None else time_ago(options["since"], now),
        before=None if older_than is None else now - span(older_than, "--older-than"),
        keys=tuple(options.get("key") or ()),
        sort=checked_sort(view, options["sort"] or ()),
        limit=options["limit"],
        queue=options.get("queue"),
        from_offset=_from_offset(options),
    )


def _from_offset(options: Mapping[str, Any]) -> int | None:
    """Where to begin reading a queue: an offset says nothing without its topic and queue."""
    offset: int | None = options.get("from_offset")
    if offset is not None and (len(options["topic"] or ()) != 1 or options["queue"] is None):
        raise UsageError("--from-offset takes one --topic and a --queue: offsets are those of one queue")
    return offset


DEFAULTS = {"format_": TABLE, "wide": False}


def _options(view: View) -> dict[str, object]:
    filters = {_parameter(name): _filter(view, name) for name in view.filters}
    keys = {} if view.keys is None else {"key": Keys}
    body = {"body": Body} if view.bodies else {}
    place = {"queue": Queue, "from_offset": FromOffset} if view.has_queues else {}
    times = {"older_than": OlderThan, "since": Since, "now": ClockNow}
    return {**filters, **place, **keys, **times, "sort": Sort, "limit": Limit, "wide": Wide, **body, "format_": Format}


def _filter(view: View, name: str) -> object:
    is_consumers = view.filters[name] == ("consumer_group",)
    metavar, text = CONSUMER_GROUP if is_consumers else FILTERS[name]
    choices = {"state": view.states, "lag-state": names.LAG_STATES, "asked-for": ASKED_FOR}.get(name, ())
    lowered = [each.lower() for each in choices]
    text += f": {', '.join(lowered)}" if lowered else ""
    if name == "state" and set(names.UNDECIDED) <= set(choices):
        text += "; stuck: all that nobody decided"

    def those_that_begin(incomplete: str) -> list[str]:
        return [each for each in lowered if each.startswith(incomplete.lower())]

    option = typer.Option(
        f"--{name}", metavar=metavar, help=f"{text}; may be repeated.", autocompletion=those_that_begin
    )
    return Annotated[Values, option]


def _parameter(option: str) -> str:
    return option.replace("-", "_")
