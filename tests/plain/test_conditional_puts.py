"""A server of a warehouse that lets one of two writers take the place of the other: nothing is made there.

What real servers and Spark do is in tests/end_to_end/test_object_store.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from txmq_lib.cli.run.recorded import recorded
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta import conditional_puts, warehouse
from txmq_lib.delta.conditional_puts import require_conditional_puts
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import WarehouseUnsafe


class JavaError(Py4JJavaError):
    """An error of the JVM, without one."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __str__(self) -> str:
        return self.words


def conditional(place: Path) -> bool:
    try:
        place.open("x").close()
    except FileExistsError:
        return False
    return True


def unconditional(place: Path) -> bool:
    place.touch()
    return True


def failing(words: str) -> Callable[[Path], bool]:
    def put(place: Path) -> bool:
        place.touch()  # done, perhaps: nobody knows
        raise JavaError(words)

    return put


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Path], bool]], None]:
    """Asks a server that puts so."""

    def put_twice(puts: Callable[[Path], bool]) -> None:
        monkeypatch.setattr(conditional_puts, "put_new", lambda _spark, place, _lines: puts(Path(place)))
        try:
            require_conditional_puts(None, str(tmp_path))
        finally:
            assert list(tmp_path.iterdir()) == []

    return put_twice


def test_a_server_that_refuses_the_second_put_will_do(probe):
    probe(conditional)


@pytest.mark.parametrize(
    ("puts", "words"),
    [
        (unconditional, "its server takes a second PUT with If-None-Match"),
        (
            failing("o.write.\n: org.apache.hadoop.fs.s3a.AWSUnsupportedFeatureException: 501"),
            "its server does not know PUT",
        ),
    ],
)
def test_a_server_that_cannot_refuse_it_is_told_in_one_line(probe, puts, words):
    with pytest.raises(WarehouseUnsafe, match=words) as raised:
        probe(puts)
    assert len(str(raised.value).splitlines()) == 1


def test_a_server_that_fails_is_not_said_to_be_unsafe(probe):
    with pytest.raises(JavaError, match="connection"):
        probe(failing("connection reset"))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """A warehouse that has no tables, on a server that is not safe."""

    def refuse(_spark: object, uri: str) -> None:
        raise WarehouseUnsafe(uri)

    monkeypatch.setattr(warehouse, "require_conditional_puts", refuse)
    made = object.__new__(Warehouse)
    made.uri, made.spark, made.created = "s3a://b/w", None, []
    made._create = lambda spec, **_: made.created.append(spec.table)
    made.look_at = lambda names: dict.fromkeys(names, -1)
    return made


def test_the_server_is_asked_before_the_first_table_is_made(fresh):
    with pytest.raises(WarehouseUnsafe, match="s3a://b/w"):
        fresh.create_missing()
    assert fresh.created == []


def test_where_all_tables_are_and_where_delta_itself_excludes_writers_nothing_is_asked(fresh):
    fresh.uri = "gs://b/w"
    assert fresh.create_missing() == list(table_specs())
    fresh.uri, fresh.look_at = "s3a://b/w", lambda names: dict.fromkeys(names, 0)
    assert fresh.create_missing() == []


def test_a_run_that_ends_so_is_not_recorded_there(monkeypatch):
    written = []
    monkeypatch.setattr("txmq_lib.cli.run.recorded.write_runs", lambda *_, **__: written.append(1) or "")
    with pytest.raises(WarehouseUnsafe), recorded("run", Settings.load(warehouse="s3://b/w")):
        raise WarehouseUnsafe("no")
    assert written == []
