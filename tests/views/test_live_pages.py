"""The report as a live page, a page per transaction, and hints that can be pasted. No JVM, no browser."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import socket
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from moment import NOW, NOW_TEXT
from views.report_rows import HOSTILE, rows

from txmq_lib.cli.options import Options
from txmq_lib.cli.output.hints import _COMMAND, pasteable
from txmq_lib.cli.run.endpoint import Counted, endpoint, listen_address
from txmq_lib.cli.run.pages import Pages, is_own_name
from txmq_lib.config.settings import Settings
from txmq_lib.service.health_file import Health


@contextmanager
def served(uri: str, tmp_path, listen=("127.0.0.1", 0)):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    counted = Counted(uri, tmp_path / "counted.json", lag_window_ms=1)
    pages = Pages(Settings.load(warehouse=uri), pasteable(Options((), (), uri)))
    with endpoint(listen, health, counted, wake=lambda: None, pages=pages) as at:
        health.running()
        yield at


def got(at, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(*at, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def test_the_report_is_at_the_root_and_leads_to_a_page_per_transaction(warehouse, tmp_path):
    uri = warehouse(rows("GID_PAY"))
    with served(uri, tmp_path) as at:
        status, headers, text = got(at, "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert headers["x-content-type-options"] == "nosniff"
        assert '<a href="/transaction/DISCARDED1">' in text
        assert 'class="story"' not in text
        assert f"<code>txmq --warehouse {uri} verdicts --state discarded</code>" in text
        status, _, page = got(at, "/transaction/DISCARDED1")
        assert status == 200
        assert "<dt>means</dt><dd>given up after the last check: nobody decided it</dd>" in page
        assert f"txmq --warehouse {uri} resume DISCARDED1" in page
        assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
        assert "Nothing is known of it here." in got(at, "/transaction/NOBODY")[2]
        assert got(at, "/transaction/")[0] == got(at, "/nowhere")[0] == got(at, f"/transaction/{'x' * 600}")[0] == 404
        with socket.create_connection(at) as client:
            client.sendall(b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert b" 404 " in client.recv(100)
        assert json.loads(got(at, "/health")[2])["state"] == "running"


def test_what_messages_hold_is_text_on_a_page_of_a_transaction_too(warehouse, tmp_path):
    with served(warehouse(rows(HOSTILE)), tmp_path) as at:
        link = re.search(r'href="(/transaction/DUPLICATED[^"]*)"', got(at, "/")[2])
        page = got(at, link[1])[2]
        assert "half message stored" in page
        assert "<img" not in page
        assert page.count("<script>") == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9190", "", "[::1", "127.0.0.1.evil.example"])
def test_a_name_that_is_made_to_lead_here_is_shown_nothing(warehouse, tmp_path, host):
    with served(warehouse({}), tmp_path) as at:
        assert got(at, "/", Host=host)[0] == got(at, "/transaction/A", Host=host)[0] == 403
        assert got(at, "/", Host="localhost:1")[0] == got(at, "/", Host="[::1]:1")[0] == 200


def test_the_name_as_it_was_typed_is_its_own(warehouse, tmp_path):
    # A name that only the system's resolver knows, and no address as browsers write them.
    with served(warehouse({}), tmp_path, listen=("127.1", 0)) as at:
        assert got(at, "/", Host="127.1:9190")[0] == 200
        assert got(at, "/", Host="evil.example")[0] == 403
    assert is_own_name("MyHost:9190", "myhost")
    assert is_own_name("myhost", "MyHost")


def test_a_port_alone_is_one_on_loopback():
    assert listen_address("9190") == ("127.0.0.1", 9190)
    assert listen_address("0.0.0.0:9190") == ("0.0.0.0", 9190)


def test_hints_carry_what_finds_the_warehouse():
    hint = pasteable(Options(("my conf.yaml",), ("thresholds.lag=1", "warehouse=/w"), None))
    assert hint("then txmq settle A --commit") == "then txmq --conf 'my conf.yaml' --set warehouse=/w settle A --commit"
    assert (
        hint("given by txmq itself, txmq-alerts.json, txmq landing")
        == "given by txmq itself, txmq-alerts.json, txmq landing"
    )
    assert pasteable(Options(("./txmq.yaml",), (), None, are_files_found=True))("txmq run") == "txmq run"
    assert pasteable(Options((), (), "/w x"))("txmq given-up") == "txmq --warehouse '/w x' given-up"


def test_every_command_that_a_hint_may_name_is_known():
    import typer

    from txmq_lib.cli.app import app

    commands = set(typer.main.get_command(app).commands) - {"config", "demo", "init-config", "wakeup"}
    assert {name for name in commands if not _COMMAND.search(f"txmq {name} x")} == set()


def test_status_and_trace_can_be_pasted(warehouse, txmq_as_it_is):
    txmq = txmq_as_it_is
    uri = warehouse(rows("GID_PAY"))
    _, out, _ = txmq("--warehouse", uri, "status", "--now", NOW.isoformat())
    named = [line.partition("txmq --warehouse ")[2] for line in out.splitlines()[1:8] if "txmq " in line]
    assert named
    for words in named:
        assert txmq("--warehouse", *shlex.split(words))[0] in (0, 1)
    _, out, _ = txmq("--warehouse", uri, "trace", "DISCARDED1")
    assert f"txmq --warehouse {uri} settle DISCARDED1 --commit" in out


def test_the_report_lists_what_is_stuck_with_what_to_do_and_a_story_each(warehouse, txmq, tmp_path):
    out = tmp_path / "r.html"
    uri = warehouse(rows("GID_PAY", pending=60))
    txmq("--warehouse", uri, "report", "--out", str(out), "--now", NOW.isoformat())
    section = re.search(r'<section id="stuck".*?</section>', out.read_text(), re.DOTALL)[0]
    assert "Undecided, the oldest of 60" in section
    assert "Asked about no more and decided by nobody, the newest of 1" in section
    assert section.count('<a href="#undecided-story-') == 50
    assert f"10 more transactions: txmq --warehouse {uri} pending --format csv" in section
    # The oldest first: P59 is 59 minutes old.
    assert re.findall(r'<a href="#undecided-story-\d+">(P\d+)</a>', section)[:2] == ["P59", "P58"]
    story = re.search(r'<details class="story" id="given-up-story-1">.*?</details>', section, re.DOTALL)[0]
    for words in ("<dt>means</dt>", "<dt>why</dt>", "<dt>do</dt>", f"txmq --warehouse {uri} resume DISCARDED1"):
        assert words in story


def test_of_lag_states_the_worst_come_first(warehouse, txmq):
    place = {"broker_name": "a", "topic": "T"}
    at = "2026-11-21T11:58:00Z"
    content = {
        "consumer_offset": [
            {**place, "queue_id": queue, "consumer_group": "CG", "next_offset": offset}
            for queue, offset in enumerate((99, 9, 1))
        ],
        "landing_frontier": [
            {**place, "queue_id": queue, "next_offset": 9, "highest_store_timestamp": at} for queue in range(3)
        ],
    }
    _, out, _ = txmq("--warehouse", warehouse(content), "status", "--now", NOW_TEXT)
    row = next(line for line in out.splitlines() if line.startswith("  CG"))
    assert re.search(r"stopped 1 .*fine 1", row) or "stopped 1" in row.split("  ")[-1].split(" ahead")[0], row
