"""Commands of the site's pages that need a server or a network, run as the pages have them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from pages import ROOT, checkout, environment, follow, marked, written
from postgresql import PostgreSQL
from real_broker import real_rocketmq

pytestmark = pytest.mark.real


def rows(directory: Path, environ: Mapping[str, str], *arguments: str) -> list[dict[str, object]]:
    """What a view tells, as JSON."""
    command = ["txmq", *arguments, "--format", "json"]
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_pages_on_live_brokers_run_against_a_real_one(tmp_path):
    connect = marked("brokers.md", "test_the_pages_on_live_brokers_run_against_a_real_one")
    recover = marked("recover.md", "test_the_pages_on_live_brokers_run_against_a_real_one")
    directory = checkout(tmp_path)
    written("brokers.md", directory)
    with real_rocketmq() as rocketmq:
        producer = rocketmq.client("produce", rocketmq.namesrv, "GID_AWAY", "TopicA", "UU", "2", "0")
        producer.wait_for("done")
        (_, settled), (_, resumed) = producer.told("sent")
        environ = {**environment(directory), "NAMESRV": rocketmq.namesrv, "TX": settled, "LOST": resumed}
        follow(connect, directory, environ)
        pending = rows(directory, environ, "--conf", "live.yaml", "pending")
        assert {row["transaction_id"] for row in pending} <= {settled, resumed}
        producer.kill()
        time.sleep(15)  # two checks, three seconds apart, and nobody answers
        follow(recover, directory, environ)
        sent = rows(directory, environ, "--conf", "live.yaml", "sent", "--state", "accepted")
        assert {(row["transaction_id"], row["action"]) for row in sent} == {(settled, "commit"), (resumed, "resume")}


def test_the_resolvers_of_the_page_ask_a_real_postgresql(tmp_path):
    page_blocks = marked("resolvers.md", "test_the_resolvers_of_the_page_ask_a_real_postgresql")
    directory = checkout(tmp_path)
    written("resolvers.md", directory)
    server = PostgreSQL.created()
    try:
        server.start()
        environ = {**environment(directory), "ORDERS_DATABASE_URL": server.url}
        subprocess.run(["python3", "transaction_log.py"], cwd=directory, env=environ, check=True)
        server.query("create table transaction_log (transaction_id text primary key, state text not null)")
        for row in sqlite_rows(directory / "transaction_log.db"):
            server.query("insert into transaction_log values ('{}', '{}')".format(*row))
        ran = follow(page_blocks, directory, environ)
    finally:
        server.remove()
    verdicts = [json.loads(line) for line in list(ran.told.values())[-1].splitlines()]
    assert {row["verdict"] for row in verdicts} == {"COMMITTED", "ROLLED_BACK", "PENDING"}


def sqlite_rows(path: Path) -> list[tuple[str, str]]:
    """The transaction log that the page makes."""
    with closing(sqlite3.connect(path)) as log:
        return log.execute("select transaction_id, state from transaction_log").fetchall()


def test_a_fresh_checkout_is_set_up_as_the_page_says(tmp_path):
    page_blocks = marked("install.md", "test_a_fresh_checkout_is_set_up_as_the_page_says")
    directory = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", ROOT.as_uri(), directory], check=True)
    (directory / "bin").mkdir()
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON", "TXMQ"))}
    ran = follow(page_blocks, directory, outer, longest=1800)
    assert "Verdicts of 1440 transactions" in ran.told["make demo"]
