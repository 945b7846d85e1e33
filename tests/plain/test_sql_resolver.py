"""The sql resolver against SQLite files: what it asks, what it makes of rows and faults, and what it never tells."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from moment import NOW
from questions import check
from sqlalchemy import event

from txmq_lib.answers.credentials import SecretMissingError, database_url, headers, missing_secrets
from txmq_lib.answers.sql import SqlResolver
from txmq_lib.config.resolver_settings import HttpResolver
from txmq_lib.config.resolver_settings import SqlResolver as SqlSettings
from txmq_lib.config.settings import Settings

TABLE = {"kind": "sql", "url_env": "DB", "table": "log", "key_column": "id", "state_column": "state",
         "commit": ["C"], "rollback": ["R"]}  # fmt: skip
QUERY = {name: value for name, value in TABLE.items() if name != "table"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    with sqlite3.connect(path) as connection:
        connection.execute('create table log (id text primary key, state text, "odd name" integer)')
        rows = [(f"T{number}", "C" if number % 2 else "R", number) for number in range(100)]
        connection.executemany("insert into log values (?, ?, ?)", rows)
    return path


def resolver(database: Path | str, **fields: Any) -> SqlResolver:
    url = database if isinstance(database, str) else f"sqlite:///{database}"
    base = TABLE if "query" not in fields else QUERY
    return SqlResolver(SqlSettings.model_validate({**base, **fields}), url, now=NOW)


def statements(sql_resolver: SqlResolver) -> list[tuple[str, Any]]:
    """Every statement it executes from now on, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        seen.append((statement, parameters))

    event.listen(sql_resolver._engine, "before_cursor_execute", note)
    return seen


def answers(sql_resolver: SqlResolver, ids: Sequence[str]) -> list[tuple[str | None, str | None]]:
    return [(answer.answer, answer.reason) for answer in sql_resolver.answers([check(name) for name in ids])]


def test_it_asks_for_the_keys_of_the_batch_once_each_and_for_nothing_else(database):
    sql_resolver = resolver(database)
    seen = statements(sql_resolver)
    assert answers(sql_resolver, ["T1", "T2", "T1", "T100"]) == [
        ("commit", None), ("rollback", None), ("commit", None), ("unknown", "ABSENT"),
    ]  # fmt: skip
    assert seen == [("SELECT log.id, log.state \nFROM log \nWHERE log.id IN (?, ?, ?)", ("T1", "T2", "T100"))]


def test_a_key_is_a_value_and_never_sql(database):
    wicked = "T1') or ('1'='1"
    assert answers(resolver(database), [wicked, "T1"]) == [("unknown", "ABSENT"), ("commit", None)]


def test_names_are_quoted_and_a_query_of_ones_own_is_asked_with_the_keys(database):
    odd = resolver(database, key_column="odd name", key_type="integer", key="keys")
    assert [answer.answer for answer in odd.answers([check(keys="3"), check(keys="4")])] == ["commit", "rollback"]
    own = resolver(database, query="select id as k, upper(state) as s from log where id in :keys",
                   key_column="k", state_column="s")  # fmt: skip
    assert answers(own, ["T1", "T2"]) == [("commit", None), ("rollback", None)]


def test_a_table_that_is_not_there_is_no_answer_and_is_asked_once(database):
    sql_resolver = resolver(database, table="nowhere_log", absent_rollback_after=0)
    assert answers(sql_resolver, ["T1"]) == [(None, "UNREACHABLE")]
    assert "no such table: nowhere_log" in (sql_resolver.down.detail or "")
    seen = statements(sql_resolver)
    assert answers(sql_resolver, ["T1", "T2"]) == [(None, "UNREACHABLE")] * 2
    assert seen == []


def test_a_key_that_the_database_cannot_take_spoils_no_other(database):
    sql_resolver = resolver(database, key_column="odd name", key_type="integer", key="keys", absent_rollback_after=0)
    checks = [check(keys=key) for key in ("3", "9" * 30, "4", "5")]
    assert [(answer.answer, answer.reason) for answer in sql_resolver.answers(checks)] == [
        ("commit", None), (None, "QUERY_FAILED"), ("rollback", None), ("commit", None),
    ]  # fmt: skip
    assert sql_resolver.down is None


def test_a_database_that_is_not_there_is_no_answer(tmp_path):
    sql_resolver = resolver(tmp_path / "no" / "such" / "directory.db", absent_rollback_after=0)
    assert answers(sql_resolver, ["T1", "T2"]) == [(None, "UNREACHABLE")] * 2


def test_neither_url_nor_password_nor_keys_are_told_when_it_fails():
    for url in (
        "postgresql+psycopg://me:s3cr%40t@127.0.0.1:1/db",
        "nonsense s3cr@t",
        "nosuchdialect://me:s3cr@t@h/db",
        "postgresql+nosuchdriver://me:s3cr@t@h/db",
    ):
        sql_resolver = resolver(url)
        shown = repr(sql_resolver.answers([check("T-private")]))
        assert sql_resolver.down is not None
        assert sql_resolver.down.reason in ("UNREACHABLE", "RESOLVER_UNUSABLE")
        assert not [word for word in ("s3cr", "T-private", "me:") if word in shown], shown
        sql_resolver.close()


@pytest.mark.parametrize("password", ["s3@cret", "s3@cret/more", "s3@c:ret", "s3@cret?x=1", "s3@cret#x"])
def test_no_piece_of_a_password_that_should_have_been_encoded_is_told(password):
    sql_resolver = resolver(f"postgresql+psycopg://me:{password}@127.0.0.1:1/db")
    (answer,) = sql_resolver.answers([check("T")])
    assert (answer.answer, answer.reason) == (None, "RESOLVER_UNUSABLE")
    assert not [piece for piece in ("s3", "cret", "more", "c:", "ret") if piece in str(answer.detail)], answer.detail


def test_a_secret_among_the_parameters_of_a_url_is_not_told():
    url = "postgresql+psycopg://127.0.0.1:1/db?user=me&password=s3%26cret&sslpassword=0ther"
    shown = resolver(url)._told(OSError("cannot use password='s3&cret' sslpassword=0ther, s3%26cret or 0ther"))
    assert shown == "OSError: cannot use password=*** sslpassword=***, *** or ***"


def test_what_a_driver_says_of_url_or_password_is_not_kept():
    url = "postgresql+psycopg://me:s3cr%40t@127.0.0.1:1/db"
    shown = resolver(url)._told(OSError(f"cannot use {url}: s3cr@t is wrong"))
    assert shown == "OSError: cannot use ***: *** is wrong"


def test_a_secret_is_looked_up_where_it_is_named(tmp_path):
    file = tmp_path / "url"
    file.write_text("sqlite://\n", encoding="utf-8")
    by_env = SqlSettings.model_validate(TABLE)
    by_file = SqlSettings.model_validate({**{k: v for k, v in TABLE.items() if k != "url_env"}, "url_file": str(file)})
    http = HttpResolver.model_validate({"kind": "http", "endpoints": ["http://h/"], "headers_env": {"X-Key": "KEY"}})
    assert database_url(by_env, {"DB": "sqlite:///x"}) == "sqlite:///x"
    assert database_url(by_file, {}) == "sqlite://"
    assert headers(http, {"KEY": "k"}) == {"X-Key": "k"}
    with pytest.raises(SecretMissingError, match=r"^headers_env\.X-Key: holds what no header may$"):
        headers(http, {"KEY": "s3cret\nX: 1"})
    with pytest.raises(SecretMissingError, match="url_env: the environment variable DB is not set"):
        database_url(by_env, {"DB": ""})
    file.unlink()
    with pytest.raises(SecretMissingError, match="cannot be read"):
        database_url(by_file, {})
    settings = Settings.load(assignments=[
        "resolvers.a={kind: sql, url_env: DB, table: t, key_column: k, state_column: s, commit: [C]}",
        "resolvers.b={kind: http, endpoints: ['http://h/'], headers_env: {X-Key: KEY}}",
    ])  # fmt: skip
    assert missing_secrets(settings, {"DB": "x"}) == [
        "resolvers.b.headers_env.X-Key: the environment variable KEY is not set"
    ]


@pytest.mark.parametrize(
    "url", ["postgresql+psycopg://me:s3cr@t:pass@h/db", "postgresql+psycopg://orders:S3cret#db.internal/orders"]
)
def test_a_url_whose_password_stands_where_the_port_should_is_unusable_and_not_told(url):
    sql_resolver = resolver(url)
    (answer,) = sql_resolver.answers([check("T")])
    assert (answer.answer, answer.reason) == (None, "RESOLVER_UNUSABLE")
    assert answer.detail == "the database's URL is not one SQLAlchemy can read"


def test_a_driver_that_fails_in_a_way_of_its_own_is_no_answer_and_its_words_are_not_told(database, monkeypatch):
    sql_resolver = resolver(database)

    def fails(*_):
        raise RuntimeError("cannot parse S3cret")

    monkeypatch.setattr(sql_resolver, "_rows", fails)
    (answer,) = sql_resolver.answers([check("T")])
    assert (answer.answer, answer.reason) == (None, "RESOLVER_UNUSABLE")
    assert answer.detail == "the database's driver failed with RuntimeError"


@pytest.mark.parametrize("asks", [{}, {"query": "select id, state from log where id in :keys"}], ids=["table", "query"])
def test_a_key_with_rows_without_end_has_no_answer_and_the_others_have_theirs(database, asks):
    with sqlite3.connect(database) as connection:
        connection.execute("create table many as select * from log")
        connection.execute(
            "insert into many select 'T1', 'C', 0 from"
            " (with recursive n(i) as (select 1 union all select i + 1 from n where i < 500000) select i from n)"
        )
        connection.execute("drop table log")
        connection.execute("alter table many rename to log")
    sql_resolver = resolver(database, **asks)
    tracemalloc.start()
    found = answers(sql_resolver, [f"T{number}" for number in range(8)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [(None, "QUERY_FAILED") if n == 1 else ("commit" if n % 2 else "rollback", None) for n in range(8)]
    assert peak < 4 * 1024 * 1024
