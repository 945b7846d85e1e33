"""A transaction log in a database, through SQLAlchemy: only rows of the keys asked about are fetched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import URL, Select, TextClause, bindparam, column, create_engine, make_url, select, table, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from txmq_lib.answers.protocol import QUERY_FAILED, RESOLVER_UNUSABLE, UNREACHABLE, Answer, Check, no_answer
from txmq_lib.answers.states import answers_of_rows, half_columns, looked_up
from txmq_lib.config.resolver_settings import SqlResolver as SqlSettings
from txmq_lib.config.secrets import is_ambiguous, scrubbed, secrets_of_url

LIBPQ_DRIVERS = ("psycopg", "psycopg2")
MYSQL_DRIVERS = ("pymysql", "mysqldb")
Keys = Sequence[str | int]
MOST_ROWS = 100  # of one key; a log has one, or one per state


class SqlResolver:
    """Answers from a table or query of a database; `url` is a secret and is never told."""

    def __init__(self, settings: SqlSettings, url: str, *, now: datetime) -> None:
        self.batch_size = settings.batch_size
        self.half_columns = half_columns(settings)
        self.down: Answer | None = None
        self._settings = settings
        self._now = now
        self._secrets = [url]
        self._engine: Engine | None = None
        self._statement = _statement(settings)
        try:
            parsed = make_url(url)
            if is_ambiguous(url):
                self.down = no_answer(RESOLVER_UNUSABLE, "the database's URL has an @ that must be written %40")
                return
            self._secrets = secrets_of_url(url, parsed.password, parsed.query)
            self._engine = create_engine(parsed, pool_size=1, max_overflow=0, connect_args=self._connect_args(parsed))
        except (ArgumentError, ValueError):
            # What is said may hold the URL, or a part of a password that stands where the port should.
            self.down = no_answer(RESOLVER_UNUSABLE, "the database's URL is not one SQLAlchemy can read")
        except (SQLAlchemyError, ImportError) as error:
            self.down = no_answer(RESOLVER_UNUSABLE, self._told(error))

    def answers(self, checks: Sequence[Check]) -> list[Answer]:
        """One answer per check; a batch that a single bad key spoils is halved until that key stands alone."""
        if self.down is not None or self._engine is None:
            return [self.down or no_answer(RESOLVER_UNUSABLE, "no database")] * len(checks)
        keys = list(dict.fromkeys(key for key in self._keys(checks) if not isinstance(key, Answer)))
        try:
            rows = self._rows(self._engine, keys) if keys else []
        except (DataError, ArithmeticError, ValueError) as error:
            if len(checks) == 1:
                return [no_answer(QUERY_FAILED, self._told(error))]
            middle = len(checks) // 2
            return [*self.answers(checks[:middle]), *self.answers(checks[middle:])]
        except (SQLAlchemyError, OSError, ImportError) as error:
            is_connection = isinstance(error, OperationalError | InterfaceError | OSError)
            self.down = no_answer(UNREACHABLE if is_connection else QUERY_FAILED, self._told(error))
            return [self.down] * len(checks)
        except Exception as error:  # of the driver, whose words may hold the URL
            self.down = no_answer(RESOLVER_UNUSABLE, f"the database's driver failed with {type(error).__name__}")
            return [self.down] * len(checks)
        return answers_of_rows(checks, rows, self._settings, now=self._now)

    def close(self) -> None:
        """Close the connection."""
        if self._engine is not None:
            self._engine.dispose()

    def _keys(self, checks: Sequence[Check]) -> list[str | int | Answer]:
        return [looked_up(check, self._settings) for check in checks]

    def _rows(self, engine: Engine, keys: Keys) -> list[tuple[Any, Any]]:
        with engine.connect() as connection, connection.begin():
            self._limit(connection)
            # Rows come as they are asked for, where the driver can: only drivers of MySQL read on to the end of them.
            is_streamed = connection.dialect.name == "postgresql"
            found = connection.execution_options(stream_results=is_streamed).execute(
                self._statement, {"keys": list(keys)}
            )
            most = MOST_ROWS * len(keys)
            rows = found.mappings().fetchmany(most + 1)
            if len(rows) > most:
                raise ValueError(f"more than {MOST_ROWS} rows of one key")
            return [(row[self._settings.key_column], row[self._settings.state_column]) for row in rows]

    def _limit(self, connection: Connection) -> None:
        # Of this transaction alone: behind a pooler the session is somebody else's next.
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {self._settings.timeout_ms}")

    def _connect_args(self, url: URL) -> dict[str, Any]:
        seconds = max(1, -(-self._settings.timeout_ms // 1000))
        driver = url.get_driver_name()
        if driver in LIBPQ_DRIVERS:
            # A server that vanished sends nothing, not even the end of a query that took too long.
            alive = {"keepalives_idle": seconds, "keepalives_interval": seconds, "keepalives_count": 3}
            return {"connect_timeout": max(2, seconds), **alive, "tcp_user_timeout": 1000 * seconds}
        if driver in MYSQL_DRIVERS:
            return {"connect_timeout": seconds, "read_timeout": seconds, "write_timeout": seconds}
        return {"timeout": seconds} if url.get_backend_name() == "sqlite" else {}

    def _told(self, error: Exception) -> str:
        # Of a failed statement only what the driver says: SQLAlchemy adds the parameters.
        words = str(error.orig if isinstance(error, DBAPIError) else error)
        return f"{type(error).__name__}: {scrubbed(words, self._secrets)}"


def _statement(settings: SqlSettings) -> Select[Any] | TextClause:
    if settings.query is not None:
        return text(settings.query).bindparams(bindparam("keys", expanding=True))
    schema, _, name = str(settings.table).rpartition(".")
    names = (settings.key_column, settings.state_column)
    log = table(name, *[column(name) for name in names], schema=schema or None)
    is_asked = log.c[settings.key_column].in_(bindparam("keys", expanding=True))
    return select(*[log.c[name] for name in names]).where(is_asked)
