"""`txmq upgrade`: the plan first, then tables of an earlier version as this one has them. No JVM is started."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable
from moment import NOW_TEXT
from views.conftest import append, with_column_added

from txmq_lib.config.table_specs import RUN_TABLE, table_spec, table_specs
from txmq_lib.delta import upgrade as upgrading
from txmq_lib.views.catalogue import VIEWS

RELEASED = sorted((Path(__file__).resolve().parents[1] / "captures" / "warehouses").glob("*.tar.xz"))
NOW = ("--now", NOW_TEXT)


# Of the first store of the demo, as every version landed and judged it.
DEMO_ROWS = {"messages": 318, "given-up": 16, "verdicts": 377, "passes": 4}


@pytest.fixture(params=RELEASED, ids=lambda path: path.name.removesuffix(".tar.xz"))
def released(request, tmp_path) -> str:
    """The warehouse of a released version."""
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    return str(tmp_path / "warehouse")


def planned(txmq, uri: str, *more: str) -> tuple[int, dict[str, tuple[str, str | None]], str]:
    status, out, err = txmq("--warehouse", uri, "upgrade", *more, "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    return status, {row["table"]: (row["what"], row["columns"]) for row in rows}, err


def shown(txmq, uri: str) -> dict[str, list[str]]:
    """The rows of every view that a warehouse answers."""
    found = {}
    for view in VIEWS:
        status, out, _ = txmq("--warehouse", uri, view.command, *NOW, "--format", "json")
        if status == 0:
            rows = [json.loads(line) for line in out.splitlines()]
            found[view.command] = [json.dumps(row, sort_keys=True) for row in rows]
    found.pop("runs", None)  # upgrading is one
    return found


def test_a_released_warehouse_is_upgraded_and_every_view_is_the_same_before_and_after(txmq, released):
    before = shown(txmq, released)
    for command in (("status",), ("verdicts",), ("producers",), ("groups",)):
        assert txmq("--warehouse", released, *command, *(NOW if command != ("producers",) else ()))[0] in (0, 1), (
            command
        )
    assert {view: len(before[view]) for view in DEMO_ROWS} == DEMO_ROWS
    id_ = json.loads(before["messages"][0])["transaction_id"]
    assert txmq("--warehouse", released, "trace", id_)[0] == 0
    is_first = not (Path(released) / "orphan").exists()
    status, plan, err = planned(txmq, released)
    changes = {name: what for name, (what, _) in plan.items() if what != "as it is"}
    made = {name for name, what in changes.items() if what == "make"}
    assert status == 0
    if not is_first:
        assert changes == dict.fromkeys(("broker_set_up", "check_cursor", "landing_frontier"), "add columns"), (
            "what came since 0.2.0"
        )
    if is_first:
        assert set(changes.values()) == {"make", "add columns"}
        assert ({"manual_decision", "broker", "orphan", "run"} <= made, changes["verdict"]) == (True, "add columns")
        assert f"{len(changes)} tables to upgrade; nothing was written: --apply does it" in err
        assert not (Path(released) / "orphan").exists()
    assert planned(txmq, released, "--apply")[0] == 0
    for name in (*table_specs(), RUN_TABLE):
        stored = DeltaTable(f"{released}/{name}").schema().to_json()
        assert str(table_spec(name).differences(stored)) == "", name
    after = shown(txmq, released)
    assert {name: rows for name, rows in after.items() if name in before} == before
    status, plan, err = planned(txmq, released, "--apply")
    assert (status, {what for what, _ in plan.values()}, err) == (
        0, {"as it is"}, "nothing to do: the tables are of this version\n",
    )  # fmt: skip
    assert txmq("--warehouse", released, "status", *NOW)[0] in (0, 1)
    if is_first:
        assert '"command": "upgrade"' in txmq("--warehouse", released, "runs", "--format", "json")[1]


def test_a_table_with_a_column_of_elsewhere_is_refused_and_nothing_is_written(txmq, warehouse):
    uri = warehouse({})
    shutil.rmtree(Path(uri) / "orphan")
    shutil.rmtree(Path(uri) / "verdict")
    DeltaTable.create(f"{uri}/verdict", DeltaTable(f"{uri}/quarantine").schema())
    status, plan, err = planned(txmq, uri)
    assert (status, plan["verdict"][0], plan["orphan"]) == (0, "cannot be upgraded", ("make", None))
    assert "--apply would write nothing" in err
    status, _, err = planned(txmq, uri, "--apply")
    assert (status, "SCHEMA_MISMATCH" in err, "- verdict: " in err) == (3, True, True)
    assert not (Path(uri) / "orphan").exists()


def test_one_that_was_killed_on_the_way_is_carried_on(txmq, warehouse, monkeypatch):
    uri = warehouse({})
    for name in ("broker", "orphan", "run"):
        shutil.rmtree(Path(uri) / name)
    made, create = [], upgrading.create_table

    def dies(path, spec, properties):
        if made:
            raise KeyboardInterrupt
        made.append(spec.table)
        create(path, spec, properties)

    monkeypatch.setattr(upgrading, "create_table", dies)
    with pytest.raises(KeyboardInterrupt):
        upgrading.upgrade(uri, upgrading.planned_upgrade(uri))
    monkeypatch.undo()
    assert {name for name, (what, _) in planned(txmq, uri)[1].items() if what == "make"} == {"orphan", "run"}
    assert planned(txmq, uri, "--apply")[0] == 0
    assert {what for what, _ in planned(txmq, uri)[1].values()} == {"as it is"}


def test_new_columns_are_null_in_rows_of_before(txmq, warehouse):
    uri = warehouse({})
    row = {"transaction_id": "A", "verdict": "COMMITTED", "is_settled": True}
    with_column_added(Path(uri), "verdict", "reason", [row])
    assert {what for what, _ in planned(txmq, uri)[1].values()} == {"as it is"}
    append(Path(uri), "verdict", [{**row, "transaction_id": "B", "reason": "one_op"}])
    _, out, _ = txmq("--warehouse", uri, "verdicts", "--format", "json", "--sort", "transaction_id")
    assert [json.loads(line)["reason"] for line in out.splitlines()] == [None, "one_op"]


def test_where_there_is_no_warehouse_none_is_made(txmq, tmp_path):
    status, _, err = txmq("--warehouse", str(tmp_path / "none"), "upgrade", "--apply")
    assert (status, "TABLE_MISSING" in err) == (2, True)
    assert not (tmp_path / "none").exists()
