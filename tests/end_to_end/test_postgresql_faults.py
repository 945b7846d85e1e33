"""The sql resolver on a real PostgreSQL: what it does when the database is slow, refuses, or is gone. No Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from moment import NOW
from postgresql import PASSWORD, PostgreSQL
from questions import check

from txmq_lib.answers.protocol import Answer
from txmq_lib.answers.sql import SqlResolver
from txmq_lib.config.resolver_settings import SqlResolver as SqlSettings

pytestmark = pytest.mark.real

TABLE = {"kind": "sql", "url_env": "X", "table": "log", "key_column": "id", "state_column": "state",
         "commit": ["C"], "rollback": ["R"], "absent_rollback_after": 0}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    running = PostgreSQL.created()
    try:
        running.start()
        running.query(
            "create table log (id text primary key, state char(8))",
            "insert into log select 'T' || n, case when n % 2 = 0 then 'C' else 'R' end from generate_series(0, 99999) n",
            "create table orders (id bigint primary key, state text)",
            "insert into orders select n, 'C' from generate_series(1, 9) n",
            "analyze",
        )
        yield running
    finally:
        running.remove()


def ask(url: str, *checks: Any, **fields: Any) -> tuple[list[Answer], SqlResolver]:
    table = {**TABLE, **fields}
    if "query" in fields:
        del table["table"]
    resolver = SqlResolver(SqlSettings.model_validate(table), url, now=NOW)
    try:
        return resolver.answers(checks or [check("T1")]), resolver
    finally:
        resolver.close()


def said(answers: list[Answer]) -> list[tuple[str | None, str | None]]:
    return [(answer.answer, answer.reason) for answer in answers]


def test_only_the_rows_of_the_keys_are_fetched_and_padded_states_are_understood(server):
    server.query("select pg_stat_reset()")
    answers, _ = ask(server.url, *[check(f"T{number}") for number in range(0, 100_000, 250)])
    assert said(answers) == [("commit", None)] * 400
    time.sleep(1.5)  # a backend that ended reports its figures within a second
    assert server.query("select seq_scan, idx_tup_fetch from pg_stat_user_tables where relname = 'log'") == [(0, 400)]


def test_a_key_the_database_refuses_spoils_no_other(server):
    answers, resolver = ask(server.url, check("T0"), check("T\x00"), check("T1"), check("absent"))
    assert said(answers) == [("commit", None), (None, "QUERY_FAILED"), ("rollback", None), ("rollback", "ABSENT")]
    assert resolver.down is None
    checks = [check(keys="3"), check(keys="9" * 25), check(keys="4")]
    answers, _ = ask(server.url, *checks, table="orders", key="keys", key_type="integer")
    assert [answer.answer for answer in answers[::2]] == ["commit", "commit"]
    assert (answers[1].answer, answers[1].reason) in {(None, "QUERY_FAILED"), ("rollback", "ABSENT")}


def test_a_query_that_takes_too_long_ends_and_its_table_is_left_alone(server):
    with psycopg.connect(server.url.replace("+psycopg", "")) as other:
        other.execute("lock table log")
        begun = time.monotonic()
        answers, resolver = ask(server.url, timeout="1s")
        assert time.monotonic() - begun < 4
    assert said(answers) == [(None, "UNREACHABLE")]
    assert "statement timeout" in (resolver.down.detail or "")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("delete from log where id in :keys returning id, state", "syntax error"),  # nothing but a query has a cursor
        ("with d as (delete from log where id in :keys returning id, state) select * from d", "data-modifying"),
        ("select id, state from log where id in :keys for update", "read-only transaction"),
    ],
)
def test_a_query_can_write_nothing(server, query, words):
    answers, resolver = ask(server.url, query=query)
    assert said(answers) == [(None, "QUERY_FAILED")]
    assert words in (resolver.down.detail or "")
    assert server.query("select count(*) from log where id = 'T1'") == [(1,)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (PASSWORD, "wr0ng-one", "password authentication failed"),
        ("/postgres", "/nowhere", 'database "nowhere" does not exist'),
    ],
)
def test_who_may_not_in_has_no_answer_and_no_password_is_told(server, old, new, words):
    url = server.url.removesuffix("/postgres").replace(old, new) + ("/nowhere" if old == "/postgres" else "/postgres")
    answers, _ = ask(url)
    assert said(answers) == [(None, "UNREACHABLE")]
    assert words in (answers[0].detail or "")
    assert not {PASSWORD, "wr0ng-one"} & {*(answers[0].detail or "").split()}
    assert "wr0ng" not in repr(answers)
    assert PASSWORD not in repr(answers)


def test_a_server_that_stops_between_two_batches_has_no_answer_for_the_rest(server):
    resolver = SqlResolver(SqlSettings.model_validate(TABLE), server.url, now=NOW)
    assert said(resolver.answers([check("T0")])) == [("commit", None)]
    server.stop()
    assert said(resolver.answers([check("T1"), check("absent")])) == [(None, "UNREACHABLE")] * 2
    server.start()
    assert said(resolver.answers([check("T1")])) == [(None, "UNREACHABLE")], "left alone for the rest of the pass"
    resolver.close()
    assert said(ask(server.url)[0]) == [("rollback", None)], "the next pass asks again"
