"""Two thousand open checks in three groups, answered from a real PostgreSQL of a million rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from house import House, wall_clock
from moment import NOW
from page_commands import on_page
from postgresql import PASSWORD, PostgreSQL
from resolving import half, verdicts

from txmq_lib.cli import main
from txmq_lib.pipeline.resolve import run_resolve

pytestmark = pytest.mark.real

ROWS, ORDERS, CHECKS = 1_000_000, 300_000, 2_000
# The state of transaction n is that of n % 5; of every tenth there is no row.
STATES = {0: "COMMITTED", 1: "ROLLED_BACK", 2: "PREPARED", 3: "COMMITTED", 4: "BROKEN"}
VERDICT_OF = {"COMMITTED": "COMMITTED", "ROLLED_BACK": "ROLLED_BACK"}
SPREAD = ROWS // CHECKS  # the transactions asked about lie all over the table
SETTINGS = """
transaction_timeout: 2s
resolve: {checks_per_write: 500}
resolvers:
  GID_TABLE: &log
    {kind: sql, url_env: LOG_URL, table: public.transaction_log, key_column: transaction_id, state_column: state,
     commit: [COMMITTED], rollback: [ROLLED_BACK], unknown: [PREPARED], batch_size: 200}
  GID_ORDER:
    {kind: sql, url_env: LOG_URL, table: order_log, key_column: order_id, state_column: is_paid, key: property order,
     key_type: integer, commit: [true], rollback: [false], absent_rollback_after: 30s}
  GID_QUER?:
    {kind: sql, url_env: LOG_URL, key_column: id, state_column: said, commit: [c], rollback: [r],
     query: "select transaction_id as id, lower(left(state, 1)) as said from transaction_log
             where transaction_id in :keys"}
"""
GROUPS = ("GID_TABLE", "GID_ORDER", "GID_QUERY")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    server = PostgreSQL.created()
    try:
        server.start()
        state = "(array['COMMITTED', 'ROLLED_BACK', 'PREPARED', 'COMMITTED', 'BROKEN'])[n % 5 + 1]"
        server.query(
            "create table transaction_log (transaction_id text primary key, state text not null, at timestamptz)",
            "create table order_log (order_id integer primary key, is_paid boolean)",
            f"insert into transaction_log select 'T' || n * {SPREAD} + m, {state}, now()"
            f" from generate_series(0, {CHECKS - 1}) n, generate_series(0, {SPREAD - 1}) m"
            " where not (m = 0 and n % 10 = 0)",
            f"insert into order_log select n, n % 2 = 0 from generate_series(0, {ORDERS - 1}) n"
            f" where n % 10 <> 0 or n >= {CHECKS}",
            "analyze",
        )
        yield server
    finally:
        server.remove()


def number_of(check: int) -> int:
    return check * SPREAD


def truth(check: int) -> str:
    """The verdict that the database's rows mean for the n-th transaction."""
    group = GROUPS[check % 3]
    if check % 10 == 0:  # no row; an order that old without one is a rollback
        return "ROLLED_BACK" if group == "GID_ORDER" else "PENDING"
    if group == "GID_ORDER":
        return "COMMITTED" if check % 2 == 0 else "ROLLED_BACK"
    return VERDICT_OF.get(STATES[check % 5], "PENDING")


def landed(check: int) -> dict:
    row = half(check, GROUPS[check % 3], order=str(check))
    row["properties"]["UNIQ_KEY"] = f"T{number_of(check)}"
    return row


def reads(server: PostgreSQL) -> dict[str, tuple[int, int]]:
    """Per table: sequential scans, and rows fetched by an index."""
    time.sleep(1.5)  # a backend that ended reports its figures within a second
    rows = server.query("select relname, seq_scan, idx_tup_fetch from pg_stat_user_tables")
    return {name: (scans, fetched) for name, scans, fetched in rows}


def test_what_postgresql_says_is_settled_and_only_what_was_asked_was_read(
    postgresql: PostgreSQL, open_house: Callable[..., House], tmp_path: Path, monkeypatch, capsys
):
    (count,) = postgresql.query("select count(*) from transaction_log")[0]
    assert count == ROWS - CHECKS // 10
    house = open_house()
    conf = tmp_path / "conf.yaml"
    conf.write_text(SETTINGS, encoding="utf-8")
    house.settings = house.settings.load([str(conf)], warehouse=house.warehouse.uri)
    house.land_rows("half", [landed(check) for check in range(CHECKS)])
    assert house.reconcile().counts["check_request"] == CHECKS
    monkeypatch.setenv("LOG_URL", postgresql.url)

    def run(command: str, seconds: int) -> tuple[int, str, str]:
        now = (NOW + timedelta(seconds=seconds)).isoformat()
        arguments = on_page("resolvers.md", command, {"engine.yaml": str(conf)})
        status = main([*arguments, "--warehouse", house.warehouse.uri, "--now", now])
        output = capsys.readouterr()
        assert PASSWORD not in output.out + output.err
        return status, output.out, output.err

    def resolve(seconds: int) -> tuple[int, str, str]:
        return run("txmq resolve --conf engine.yaml", seconds)

    # Down: no answer, status 1, told per group; nothing is taken for a rollback.
    postgresql.stop()
    status, out, err = resolve(1)
    assert status == 1
    assert f"asked {CHECKS}\n" in out
    assert f"no_answer {CHECKS}\n" in out
    for group in GROUPS:
        assert f"{group}: " in err
        assert "UNREACHABLE" in err
    assert f"{CHECKS} checks without an answer, thresholds.unanswered is 0" in err
    assert not house.rows("end_transaction")
    assert PASSWORD not in str(house.rows("check_answer")) + str(house.rows("pass"))
    postgresql.start()
    # What stood before the crash is of no interest here; counting begins now.
    postgresql.query("select pg_stat_reset()")

    # Killed half-way, and run again: what was said is kept, and the rest alone is asked.
    with house.killed_after("answers_000002"):
        run_resolve(
            house.warehouse, house.settings, now=NOW + timedelta(seconds=2), wall_clock=wall_clock,
            environ={"LOG_URL": postgresql.url},
        )  # fmt: skip
    assert sum(row["answer"] is not None for row in house.rows("check_answer")) == 1_000
    status, out, err = resolve(3)
    assert (status, "idle 1" in out) == (0, True), "the killed pass was carried on; nothing is left to ask"
    said = [row for row in house.rows("check_answer") if row["answer"] is not None]
    assert len(said) == len({row["transaction_id"] for row in said}) == CHECKS

    orders = [check for check in range(CHECKS) if GROUPS[check % 3] == "GID_ORDER"]
    others = [check for check in range(CHECKS) if GROUPS[check % 3] != "GID_ORDER"]
    assert reads(postgresql) == {
        "transaction_log": (0, sum(check % 10 != 0 for check in others)),
        "order_log": (0, sum(check % 10 != 0 for check in orders)),
    }, "no table was scanned, and of the index each asked row was fetched once"

    status, out, err = run("txmq reconcile --conf engine.yaml", 10)
    assert (status, err) == (0, "")
    found = verdicts(house)
    expected = {f"T{number_of(check)}": truth(check) for check in range(CHECKS)}
    assert Counter(expected.values()).keys() == {"COMMITTED", "ROLLED_BACK", "PENDING"}
    assert found == expected
