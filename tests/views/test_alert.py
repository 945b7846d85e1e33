"""`txmq alert` against a real HTTP server on loopback: once when a condition begins, once when it clears."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hook_server import hook_server
from moment import NOW_TEXT as NOON
from views.conftest import append

from txmq_lib.alerts.told_before import AlertState
from txmq_lib.cli.options import Options
from txmq_lib.cli.run.alert import STATE_FILE, send_alerts, send_alerts_after_pass
from txmq_lib.cli.run.clock import moment

SECRET = "hook-s3cret"
PENDING = [{"transaction_id": f"P{n}", "first_store_timestamp": "2026-11-21T11:00:00Z"} for n in range(3)]
LAGGING = [
    {"broker_name": "b", "consumer_group": group, "topic": "T", "queue_id": 0, "next_offset": 0} for group in ("CG1", "CG2")
]  # fmt: skip
END = [{"broker_name": "b", "topic": "T", "queue_id": 0, "next_offset": 50}]


@pytest.fixture
def hook(monkeypatch) -> Iterator[Any]:
    with hook_server() as server:
        monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{server.server_address[1]}/{SECRET}")
        monkeypatch.setenv("HOOK_KEY", "Bearer t0ken")
        yield server


@pytest.fixture
def posted(hook):
    """What the hook was told since it was asked last: status and condition."""

    def take() -> list[tuple[str, str]]:
        taken, hook.told[:] = [(body["status"], body["condition"]) for _, _, body in hook.told], []
        return taken

    return take


@pytest.fixture
def alert(txmq):
    def run(uri: str, *settings: str) -> tuple[int, str, str]:
        assignments = [
            part
            for each in ("alerts.url_env=HOOK_URL", "thresholds.pending_age=null", *settings)
            for part in ("--set", each)
        ]
        return txmq("--warehouse", uri, *assignments, "alert", "--now", NOON)

    return run


def without(uri: str, table: str, empty_tables: Path) -> None:
    """Empties a table again."""
    shutil.rmtree(Path(uri) / table)
    shutil.copytree(empty_tables / table, Path(uri) / table)


def test_a_condition_is_told_once_when_it_begins_and_once_when_it_clears(warehouse, alert, posted, empty_tables):
    uri = warehouse({"pending_half": PENDING})
    limit = "thresholds.pending=2"
    assert alert(uri, limit) == (0, "alerts_begun 1\nalerts_cleared 0\nalerts_standing 1\nalerts_unsent 0\n", "")
    assert posted() == [("firing", "pending")]
    append(Path(uri), "pending_half", [{"transaction_id": "P9", "first_store_timestamp": "2026-11-21T11:30:00Z"}])
    for _ in range(2):  # other figures, the same condition
        assert alert(uri, limit)[1].splitlines()[:3] == ["alerts_begun 0", "alerts_cleared 0", "alerts_standing 1"]
    assert posted() == []
    without(uri, "pending_half", empty_tables)
    assert alert(uri, limit)[1].splitlines()[:3] == ["alerts_begun 0", "alerts_cleared 1", "alerts_standing 0"]
    assert posted() == [("resolved", "pending")]
    assert (alert(uri, limit)[0], posted()) == (0, [])
    append(Path(uri), "pending_half", PENDING)
    alert(uri, limit)
    assert posted() == [("firing", "pending")]


def test_what_is_told_says_what_where_and_what_to_do(warehouse, alert, hook):
    uri = warehouse({"pending_half": PENDING})
    alert(uri, "thresholds.pending=2", "alerts.headers_env={Authorization: HOOK_KEY}")
    ((path, authorization, body),) = hook.told
    assert (path, authorization) == (f"/{SECRET}", "Bearer t0ken")
    assert body == {
        "text": "txmq firing: 3 transactions undecided (thresholds.pending 2). More: txmq pending",
        "status": "firing", "condition": "pending", "finding": "3 transactions undecided",
        "limit": "thresholds.pending 2", "command": "txmq pending", "since": "2026-11-21T12:00:00.000Z",
        "at": "2026-11-21T12:00:00.000Z", "warehouse": uri,
    }  # fmt: skip


def test_groups_are_conditions_of_their_own_and_what_is_past_no_limit_is_none(warehouse, alert, posted):
    uri = warehouse({"consumer_offset": LAGGING, "landing_frontier": END, "quarantine": [{"reason": "OP_TAG"}]})
    alert(uri, "thresholds.lag=10")
    assert posted() == [("firing", "lag b/CG1"), ("firing", "lag b/CG2")]
    alert(uri, "thresholds.lag=null")
    assert posted() == [("resolved", "lag b/CG1"), ("resolved", "lag b/CG2")]


def test_a_run_that_fails_tells_of_itself_and_keeps_its_own_error(warehouse, txmq, posted, hook):
    uri = warehouse({})
    assignments = ["--set", "alerts.url_env=HOOK_URL", "--set", "sources=[{kind: store, paths: [/x], broker: a}]"]
    status, _, err = txmq("--warehouse", uri, *assignments, "run")
    assert (status, "error SETTINGS_INVALID" in err, "  - role" in err) == (2, True, True)
    assert posted() == [("firing", "failing run")]
    # Nor does a webhook that is down, or settings that cannot be read, change what the run says.
    hook.shutdown()
    status, _, err = txmq("--warehouse", warehouse({}), *assignments, "--set", "alerts.tries=1", "run")
    assert (status, "error SETTINGS_INVALID" in err, "  - role" in err) == (2, True, True)
    status, _, err = txmq("--warehouse", uri, "--set", "alerts.tries=none", "run")
    assert (status, err.count("SETTINGS_INVALID")) == (2, 1)


def test_an_orphan_is_told_once_per_topic_without_any_setting_and_cleared_when_its_half_lands(
    warehouse, alert, posted, empty_tables
):
    rows = [{"broker_name": "b", "topic": topic, "queue_id": 0, "queue_offset": turn, "state": state}
            for turn, (topic, state) in enumerate([("T", "orphan"), ("T", "orphan"), ("U", "before_first"), ("V", "half_landed")])]  # fmt: skip
    uri = warehouse({"orphan": rows})
    for _ in range(2):
        alert(uri)
    assert posted() == [("firing", "orphans b/T")]
    without(uri, "orphan", empty_tables)
    alert(uri)
    assert posted() == [("resolved", "orphans b/T")]


def test_what_was_not_taken_is_told_again_next_time_and_the_rest_is_not(warehouse, alert, hook, posted):
    uri = warehouse({"consumer_offset": LAGGING, "landing_frontier": END})
    hook.statuses += [204, 500, 503, 302]
    code, out, err = alert(uri, "thresholds.lag=10")
    assert (code, out.splitlines()[2:]) == (3, ["alerts_standing 1", "alerts_unsent 1"])
    assert err.startswith("error ALERT_UNSENT: the webhook of alerts.url_env was not told, 3 tries: it answers 302")
    assert posted() == [("firing", "lag b/CG1")] + [("firing", "lag b/CG2")] * 3
    assert alert(uri, "thresholds.lag=10")[0] == 0
    assert posted() == [("firing", "lag b/CG2")]


def test_where_no_webhook_is_configured_a_schedule_may_say_so(warehouse, txmq):
    uri = warehouse({})
    assert txmq("--warehouse", uri, "alert")[0] == 2
    assert txmq("--warehouse", uri, "alert", "--if-configured") == (
        0, "alerts.url_env is not set: nobody is told\n", "",
    )  # fmt: skip


def test_a_dead_webhook_tells_no_secret_and_fails_no_pass(warehouse, alert, monkeypatch, capsys, tmp_path):
    uri = warehouse({"pending_half": PENDING})
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:9/{SECRET}")
    settings = ("thresholds.pending=2", "alerts.tries=1", "alerts.timeout=1s")
    code, out, err = alert(uri, *settings)
    assert (code, "ALERT_UNSENT" in err) == (3, True)
    assert SECRET not in out + err
    options = Options((), ("alerts.url_env=HOOK_URL", *settings), uri)
    send_alerts_after_pass(options, moment(NOON), {"HOOK_URL": f"http://127.0.0.1:9/{SECRET}"})
    said = capsys.readouterr().err
    assert said.startswith("alerts: ALERT_UNSENT: ")
    assert SECRET not in said
    send_alerts_after_pass(options, moment(NOON), {})
    assert "alerts: SETTINGS_INVALID" in capsys.readouterr().err
    send_alerts_after_pass(Options((), settings, f"{uri}/absent"), moment(NOON), {})
    assert capsys.readouterr().err == ""  # no webhook, nothing to tell
    empty = tmp_path / "empty"
    empty.mkdir()
    absent = Options((), ("alerts.url_env=HOOK_URL", *settings), str(empty))
    send_alerts_after_pass(absent, moment(NOON), {"HOOK_URL": f"http://127.0.0.1:9/{SECRET}"})
    assert capsys.readouterr().err == ""  # a first run that ended before there were tables


@pytest.mark.parametrize("address", ["no address", "http://", "ftp://127.0.0.1/", f"http://127.0.0.1:99999/{SECRET}"])
def test_an_address_that_is_none_is_an_alert_not_sent(warehouse, alert, monkeypatch, address):
    monkeypatch.setenv("HOOK_URL", address)
    code, _, err = alert(warehouse({"pending_half": PENDING}), "thresholds.pending=2", "alerts.tries=1")
    assert (code, "error ALERT_UNSENT" in err, SECRET in err) == (3, True, False)


def test_settings_that_cannot_be_used_are_told_all_at_once(warehouse, txmq, alert, monkeypatch):
    uri = warehouse({})
    assert txmq("--warehouse", uri, "alert")[0] == 2
    monkeypatch.delenv("HOOK_URL", raising=False)
    code, _, err = alert(uri, "alerts.headers_env={X-Key: NOT_SET}")
    assert code == 2
    assert "alerts.url_env: the environment variable HOOK_URL" in err
    assert "alerts.headers_env.X-Key: the environment variable NOT_SET" in err


def test_the_state_may_lie_elsewhere_and_what_is_none_is_an_error(warehouse, alert, posted, tmp_path):
    uri = warehouse({"pending_half": PENDING})
    elsewhere = tmp_path / "told.json"
    alert(uri, "thresholds.pending=2", f"alerts.state_file={elsewhere}")
    assert posted() == [("firing", "pending")]
    assert not (Path(uri) / STATE_FILE).exists()
    for broken in ("", "[1]", '[{"condition": "x"}]', "\x00"):
        elsewhere.write_text(broken, encoding="utf-8")
        code, _, err = alert(uri, "thresholds.pending=2", f"alerts.state_file={elsewhere}")
        assert (code, "holds no alerts" in err) == (3, True), broken
    assert alert(uri, f"alerts.state_file={tmp_path / 'absent' / 'told.json'}")[0] == 3


def test_two_at_once_tell_once(warehouse, hook, posted):
    uri = warehouse({"pending_half": PENDING})
    options = Options((), ("alerts.url_env=HOOK_URL", "thresholds.pending=2", "thresholds.pending_age=null"), uri)
    address = {"HOOK_URL": f"http://127.0.0.1:{hook.server_address[1]}/{SECRET}"}
    both = [threading.Thread(target=send_alerts_after_pass, args=(options, moment(NOON), address)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert posted() == [("firing", "pending")]


def test_what_holds_is_read_while_nobody_else_tells(warehouse, monkeypatch):
    held = AlertState.held
    inside: list[bool] = []

    @contextmanager
    def noted(self: AlertState) -> Iterator[None]:
        with held(self):
            inside.append(True)
            yield
            inside.clear()

    def found(*_: object) -> dict[str, object]:
        assert inside
        return {}

    monkeypatch.setattr(AlertState, "held", noted)
    monkeypatch.setattr("txmq_lib.cli.run.alert._found", found)
    options = Options((), ("alerts.url_env=HOOK_URL",), warehouse({}))
    send_alerts(options, moment(NOON), {"HOOK_URL": "http://127.0.0.1:9/"})
