"""A warehouse opened from Python: its views as frames, its traces, and runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast

from txmq_lib.api.rows import Rows
from txmq_lib.cli.options import location, settings_files
from txmq_lib.cli.run.clock import moment, span, time_ago, wall_clock
from txmq_lib.config.settings import Settings
from txmq_lib.errors import UsageError
from txmq_lib.names import LAG_STATES
from txmq_lib.views import catalogue
from txmq_lib.views.groups import CONSUMER_COLUMNS, PRODUCER_COLUMNS, consumer_groups, producer_groups
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.mask import Mask
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, checked_sort, checked_states
from txmq_lib.views.trace import Story, trace
from txmq_lib.views.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from txmq_lib.passes.current import PassReport

Values: TypeAlias = str | Sequence[str]


class Conditions(TypedDict, total=False):
    """What a view can be asked for; which of the filters it takes, its command tells."""

    since: str | datetime | None
    older_than: str | None
    key: Values
    sort: Values
    limit: int | None
    now: str | datetime | None
    broker: Values
    group: Values
    topic: Values
    transaction_id: Values
    state: Values
    lag_state: Values
    reason: Values
    asked_for: Values
    job: Values
    command: Values


# What every view can be asked for; the rest are filters.
EVERY_VIEW = frozenset({"since", "older_than", "key", "sort", "limit", "now"})


def open_warehouse(
    conf: str | Path | Sequence[str | Path] = (),
    *,
    warehouse: str | Path | None = None,
    settings: Sequence[str] = (),
) -> Txmq:
    """The warehouse of these settings; nothing is read and no JVM started before something is asked for.

    conf       settings files, later ones win; none: as for the command line, TXMQ_CONF, else ./txmq.yaml
    warehouse  where the tables are; wins over the settings
    settings   `key=value` assignments, as of --set; they win over files
    SettingsError with every fault there is.
    """
    files = [conf] if isinstance(conf, str | Path) else list(conf)
    found = files or settings_files(os.environ, Path())
    return Txmq(Settings.load(found, settings, None if warehouse is None else str(warehouse)))


class Txmq:
    """One warehouse under one set of settings.

    Views take the filters of the command of the same name as keywords, with `_` for `-`: a text, or a list of which any
    will do. All take `since`, `older_than`, `key`, `sort` and `limit`; `now` is the moment that ages count from.
    UsageError for what the view does not have, TableMissingError where there is no warehouse.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.warehouse = location(settings.warehouse)

    def __repr__(self) -> str:
        return f"Txmq({self.warehouse!r})"

    def pending(self, **conditions: Unpack[Conditions]) -> Rows:
        """Undecided transactions, the oldest first."""
        return self.view("pending", **conditions)

    def verdicts(self, **conditions: Unpack[Conditions]) -> Rows:
        """The verdict of every transaction, the newest first."""
        return self.view("verdicts", **conditions)

    def given_up(self, **conditions: Unpack[Conditions]) -> Rows:
        """Messages given up, the newest first."""
        return self.view("given-up", **conditions)

    def checks(self, **conditions: Unpack[Conditions]) -> Rows:
        """Questions that were raised, the newest first."""
        return self.view("checks", **conditions)

    def answers(self, **conditions: Unpack[Conditions]) -> Rows:
        """What resolvers said, the newest first."""
        return self.view("answers", **conditions)

    def decisions(self, **conditions: Unpack[Conditions]) -> Rows:
        """What was decided by hand, the newest first."""
        return self.view("decisions", **conditions)

    def sent(self, **conditions: Unpack[Conditions]) -> Rows:
        """Requests sent to live brokers, the newest first."""
        return self.view("sent", **conditions)

    def messages(self, **conditions: Unpack[Conditions]) -> Rows:
        """Visible messages, the newest first."""
        return self.view("messages", **conditions)

    def ends(self, **conditions: Unpack[Conditions]) -> Rows:
        """What became of every END_TRANSACTION, the newest first."""
        return self.view("ends", **conditions)

    def end_traces(self, **conditions: Unpack[Conditions]) -> Rows:
        """Ends that clients say they sent, the newest first."""
        return self.view("end-traces", **conditions)

    def orphans(self, **conditions: Unpack[Conditions]) -> Rows:
        """Committed messages whose half has never landed, the newest first."""
        return self.view("orphans", **conditions)

    def brokers(self, **conditions: Unpack[Conditions]) -> Rows:
        """Every broker: how it is set up, which of its limits differ from ours, how far it was read."""
        return self.view("brokers", **conditions)

    def offsets(self, **conditions: Unpack[Conditions]) -> Rows:
        """Next offset, lag and state of every consumer queue."""
        return self.view("offsets", **conditions)

    def landed(self, **conditions: Unpack[Conditions]) -> Rows:
        """What was landed, the newest first."""
        return self.view("landed", **conditions)

    def quarantine(self, **conditions: Unpack[Conditions]) -> Rows:
        """Inputs that could not be used, the newest first."""
        return self.view("quarantine", **conditions)

    def passes(self, **conditions: Unpack[Conditions]) -> Rows:
        """Every pass, the newest first: committed, abandoned or only started, and how long it took."""
        return self.view("passes", **conditions)

    def runs(self, **conditions: Unpack[Conditions]) -> Rows:
        """Every run of a command that makes passes, the newest first: what became of it, and what failed."""
        return self.view("runs", **conditions)

    def groups(
        self, *, group: Values = (), broker: Values = (), now: str | datetime | None = None
    ) -> list[dict[str, Any]]:
        """Consumer groups as `txmq groups --format json` has them: lag, worst state, rewinds; the worst first."""
        window = LagWindow(_moment(now, "now"), self.settings.lag_window_ms)
        reader = WarehouseReader(self.warehouse)
        rows = consumer_groups(reader, window, groups=_listed(group), brokers=_listed(broker))
        return [dict(zip(CONSUMER_COLUMNS, row, strict=True)) for row in rows]

    def producers(self, *, group: Values = (), broker: Values = ()) -> list[dict[str, Any]]:
        """Producer groups as `txmq producers --format json` has them, the one with most undecided ones first."""
        rows = producer_groups(WarehouseReader(self.warehouse), groups=_listed(group), brokers=_listed(broker))
        return [dict(zip(PRODUCER_COLUMNS, row, strict=True)) for row in rows]

    def view(self, command: str, /, **conditions: Unpack[Conditions]) -> Rows:
        """The rows of the view that the command line has under this name."""
        view = _view(command)
        now = _moment(conditions.get("now"), "now")
        since, older_than = conditions.get("since"), conditions.get("older_than")
        query = ViewQuery(
            filters=_filters(view, conditions),
            since=time_ago(since, now) if isinstance(since, str) else since,
            before=None if older_than is None else now - span(older_than, "older_than"),
            keys=_listed(conditions.get("key", ())),
            sort=checked_sort(view, _listed(conditions.get("sort", ()))),
            limit=conditions.get("limit"),
            lag_window=LagWindow(now, self.settings.lag_window_ms),
        )
        mask = Mask(self.settings.mask.bodies, self.settings.mask.properties)
        return Rows(WarehouseReader(self.warehouse), view, query, mask)

    def trace(self, transaction_id: str, *, broker: Values = ()) -> list[Story]:
        """Everything known about a transaction id, in time order; a story per transaction that has it."""
        return trace(WarehouseReader(self.warehouse), transaction_id, brokers=_listed(broker))

    def run(self, *, now: str | datetime | None = None, session: SparkSession | None = None) -> PassReport:
        """One cycle, as `txmq run` without its alerts: land the configured sources, reconcile, resolve, roll up, audit.

        session  where it runs; none: the active one, else one that is built of the settings and left running
        Raises what the passes raise, every one a TxmqError.
        """
        from pyspark.sql import SparkSession as Sessions

        from txmq_lib.cli.run.before_spark import require_some_source
        from txmq_lib.delta.warehouse import Warehouse
        from txmq_lib.pipeline.cycle import run_cycle
        from txmq_lib.pipeline.shared.roles import require_roles_of_sources
        from txmq_lib.spark.log_store import adopt_session
        from txmq_lib.spark.session import build_session

        require_roles_of_sources(self.settings)
        require_some_source(self.settings, os.environ)
        found = session or Sessions.getActiveSession() or build_session("txmq", self.settings)
        adopt_session(found, self.warehouse)
        return run_cycle(
            Warehouse(found, self.warehouse),
            self.settings,
            now=_moment(now, "now"),
            wall_clock=wall_clock,
            environ=os.environ,
        )


def _view(command: str) -> View:
    views = {view.command: view for view in catalogue.VIEWS}
    if command not in views:
        raise UsageError(f"there is no view {command}; there are {', '.join(views)}")
    return views[command]


def _filters(view: View, conditions: Conditions) -> dict[str, Sequence[str]]:
    filters: dict[str, Sequence[str]] = {
        name.replace("_", "-"): _listed(cast(Values, value))
        for name, value in conditions.items()
        if name not in EVERY_VIEW
    }
    if strangers := sorted(filters.keys() - view.filters.keys()):
        known = ", ".join(name.replace("-", "_") for name in view.filters)
        raise UsageError(f"{view.command} cannot be asked for {', '.join(strangers)}; it takes {known}")
    for name, states in (("state", view.states), ("lag-state", LAG_STATES)):
        if name in filters:
            filters[name] = checked_states(view, filters[name], states)
    return filters


def _listed(values: Values) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _moment(time: str | datetime | None, name: str) -> datetime:
    return moment(time.isoformat() if isinstance(time, datetime) else time, option=name)
