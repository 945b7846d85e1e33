"""`txmq alert`: what began or cleared past the thresholds goes to a webhook, once. It starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from txmq_lib.alerts.changes import Alert, after, changes
from txmq_lib.alerts.told_before import AlertState
from txmq_lib.alerts.webhook import Webhook
from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.said import say, say_error
from txmq_lib.cli.run.status import limits
from txmq_lib.config.secrets import missing_variables
from txmq_lib.config.sections import Alerts
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.errors import AlertUnsentError, SettingsError, TableMissingError, TxmqError
from txmq_lib.escaping import chat_words, webhook_words
from txmq_lib.views.problems import problems
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import read_status

STATE_FILE = "txmq-alerts.json"


def has_webhook(options: Options) -> bool:
    """Whether the settings name a webhook to be told."""
    return settings_of(options).alerts.url_env is not None


def send_alerts(options: Options, now: datetime, environ: Mapping[str, str]) -> None:
    """Tell the webhook what began and what cleared; AlertUnsentError after all were tried where one was not told."""
    settings = settings_of(options)
    uri = location(settings.warehouse)
    state = AlertState(_state_file(settings.alerts, uri))
    webhook = _webhook(settings.alerts, environ)
    with state.held():
        # Not before: while another one told what it saw, it may have cleared.
        found = _found(settings, uri, now)
        sent, unsent = state.told(), list[AlertUnsentError]()
        new = changes(sent, found)
        for status, alerts in (("firing", new.begun), ("resolved", new.cleared)):
            for alert in alerts:
                try:
                    webhook.post(_payload(status, alert, uri, now))
                except AlertUnsentError as error:
                    unsent.append(error)
                    continue
                sent = after(sent, **{"begun" if status == "firing" else "cleared": alert})
                # After each, so that whoever is killed here tells at most one of them again.
                state.keep(sent)
    # Among the counts of a pass where `run` tells them.
    counts = {"begun": len(new.begun), "cleared": len(new.cleared), "standing": len(sent), "unsent": len(unsent)}
    for name, count in counts.items():
        say(f"alerts_{name} {count}")
    if unsent:
        raise unsent[-1]


def send_alerts_after_pass(options: Options, now: datetime, environ: Mapping[str, str]) -> None:
    """The same, where alerts are configured; a fault is told and fails nothing."""
    try:
        if not has_webhook(options):
            return
    except TxmqError:  # the run itself has said so
        return
    try:
        send_alerts(options, now, environ)
    except TableMissingError:  # a first run that ended before there were tables says why itself
        return
    except TxmqError as error:
        say_error(f"alerts: {error.code}: {error.message}")
    except Exception as error:
        say(f"alerts: UNEXPECTED: {type(error).__name__}", err=True)


def _found(settings: Settings, uri: str, now: datetime) -> dict[str, Alert]:
    steps = steps_of_sources(settings.sources)
    status = read_status(WarehouseReader(uri), now, lag_window_ms=settings.lag_window_ms, source_steps=steps)
    past = [each for each in problems(status, limits(settings)) if each.limit is not None]
    since = _told_time(now)
    return {
        each.condition: Alert(each.condition, each.text, each.limit or "", f"txmq {each.command}", since)
        for each in past
    }


def _payload(status: str, alert: Alert, uri: str, now: datetime) -> dict[str, Any]:
    words = f"{alert.finding} ({alert.limit})" if status == "firing" else f"cleared: {alert.limit}, since {alert.since}"
    document = {
        "status": status,
        "condition": alert.condition,
        "finding": alert.finding,
        "limit": alert.limit,
        "command": alert.command,
        "since": alert.since,
        "at": _told_time(now),
        "warehouse": uri,
    }
    text = chat_words(f"txmq {status}: {webhook_words(words)}. More: {webhook_words(alert.command)}")
    return {"text": text, **{name: webhook_words(value) for name, value in document.items()}}


def _told_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _state_file(alerts: Alerts, uri: str) -> Path:
    if alerts.state_file is not None:
        return Path(alerts.state_file)
    if "://" in uri:
        raise SettingsError(["alerts.state_file: is needed where the warehouse is no local directory"])
    return Path(uri.removeprefix("file:")) / STATE_FILE


def webhook_faults(alerts: Alerts, environ: Mapping[str, str]) -> list[str]:
    """One fault per variable of the webhook that is not named or not set."""
    if alerts.url_env is None:
        return ["alerts.url_env: is needed: the environment variable that holds the webhook's address"]
    headers_env = {f"alerts.headers_env.{name}": of for name, of in alerts.headers_env.items()}
    return missing_variables({"alerts.url_env": alerts.url_env, **headers_env}, environ)


def _webhook(alerts: Alerts, environ: Mapping[str, str]) -> Webhook:
    faults = webhook_faults(alerts, environ)
    if faults or alerts.url_env is None:
        raise SettingsError(faults)
    headers = {name: environ[of] for name, of in alerts.headers_env.items()}
    return Webhook(environ[alerts.url_env], headers, timeout_ms=alerts.timeout_ms, tries=alerts.tries)
