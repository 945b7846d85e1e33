"""A warehouse opened from Python: what `txmq.open` offers, without a JVM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from moment import NOW_TEXT

import txmq_lib as txmq
from txmq_lib.views.catalogue import VIEWS

ID = "C000020246654E0E2F2A6940C2510000"
HALVES = {
    "pending_half": [
        {"transaction_id": "OLD", "first_store_timestamp": "2026-11-21T09:00:00Z", "producer_group": "G1"},
        {"transaction_id": "NEW", "first_store_timestamp": "2026-11-21T11:59:00Z", "producer_group": "G2"},
    ],
    "message": [
        {"transaction_id": "A", "body": b"\x00a", "properties": {"KEYS": "k", "card": "4711"}, "topic": "T"},
        {"transaction_id": "B", "body": b"b", "properties": {}, "topic": "T", "queue_offset": 1},
    ],
}


def test_a_view_is_asked_as_its_command_is(warehouse):
    opened = txmq.open(warehouse=warehouse(HALVES))
    assert [row["transaction_id"] for row in opened.pending()] == ["OLD", "NEW"]
    assert [row["transaction_id"] for row in opened.pending(older_than="1h", now=NOW_TEXT)] == ["OLD"]
    assert [row["transaction_id"] for row in opened.pending(group=["G2", "G3"])] == ["NEW"]
    assert [row["transaction_id"] for row in opened.pending(sort="producer_group:desc", limit=1)] == ["NEW"]
    since = datetime(2026, 11, 21, 11, tzinfo=UTC)
    assert opened.pending(since=since).count() == opened.pending(since="1h", now=NOW_TEXT).count() == 1
    assert next(iter(opened.pending()))["first_store_timestamp"] == "2026-11-21T09:00:00.000Z"


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.command)
def test_every_view_has_a_method_and_every_form(warehouse, view):
    opened = txmq.open(warehouse=warehouse(HALVES))
    rows = getattr(opened, view.command.replace("-", "_"))(now=NOW_TEXT)
    table = rows.arrow()
    assert table.column_names == list(view.columns)
    assert table.num_rows == rows.count() == len(list(rows))


def test_a_notebook_shows_the_first_rows_and_a_prompt_what_was_asked(warehouse):
    named = {"transaction_id": "<b>", "producer_group": "G1", "first_store_timestamp": "2026-11-21T09:00:00Z"}
    opened = txmq.open(
        warehouse=warehouse({"pending_half": [named, *({**named, "transaction_id": f"T{n}"} for n in range(29))]})
    )
    rows = opened.pending(group=["G1", "G2"])
    assert repr(rows) == "<rows of pending: group=G1|G2; .arrow(), .pandas(), .count()>"
    html = rows._repr_html_()
    assert html.endswith("<p>20 of 30 rows</p>")
    assert html.count("<tr>") == 21
    assert "<th>transaction_id</th>" in html
    assert "<b>" not in opened.pending(sort="transaction_id")._repr_html_()
    assert "&lt;b&gt;" in opened.pending(sort="transaction_id", limit=3)._repr_html_()


def test_groups_are_those_of_the_commands(warehouse, txmq_as_it_is):
    uri = warehouse(
        {
            **HALVES,
            "consumer_offset": [{"consumer_group": "CID", "topic": "T", "next_offset": 1, "broker_name": "b"}],
            "landing_frontier": [{"topic": "T", "next_offset": 4, "broker_name": "b"}],
        }
    )
    opened = txmq.open(warehouse=uri)
    for rows, command in (
        (opened.groups(now=NOW_TEXT), ("groups", "--now", NOW_TEXT)),
        (opened.producers(), ("producers",)),
    ):
        _, out, _ = txmq_as_it_is("--warehouse", uri, *command, "--format", "json")
        assert rows == [json.loads(line) for line in out.splitlines()]
        assert rows
    assert [(row["consumer_group"], row["lag"]) for row in opened.groups(now=NOW_TEXT)] == [("CID", 3)]
    assert opened.groups(group="none") == []


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_that_txmq_does_not_need(warehouse, library, monkeypatch):
    rows = txmq.open(warehouse=warehouse(HALVES)).messages(sort="transaction_id")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(txmq.TxmqError, match=f"{library} is not installed: pip install {library}, or take .arrow()"):
        getattr(rows, library)()
    monkeypatch.undo()
    pytest.importorskip(library)
    frame = getattr(rows, library)()
    assert list(frame["transaction_id"]) == ["A", "B"]
    assert str(frame["queue_offset"].dtype) in ("int64[pyarrow]", "Int64")


def test_arrow_has_times_bytes_and_maps(warehouse):
    table = txmq.open(warehouse=warehouse(HALVES)).messages(sort="transaction_id").arrow()
    assert table["body"].to_pylist() == [b"\x00a", b"b"]
    assert dict(table["properties"].to_pylist()[0]) == {"KEYS": "k", "card": "4711"}
    assert pa.types.is_timestamp(table.schema.field("store_timestamp").type)
    assert table.schema.field("store_timestamp").type.tz == "UTC"


def test_what_the_settings_mask_is_masked_in_every_form(warehouse):
    settings = ["mask.bodies=true", "mask.properties=[card]"]
    rows = txmq.open(warehouse=warehouse(HALVES), settings=settings).messages(transaction_id="A")
    assert next(iter(rows))["properties"] == {"KEYS": "k", "card": "***"}
    table = rows.arrow()
    assert dict(table["properties"].to_pylist()[0]) == {"KEYS": "k", "card": "***"}
    assert table["body"].to_pylist() == ["***"]
    assert "4711" not in str(table.to_pylist())


def test_what_there_is_not_is_said(warehouse, tmp_path):
    opened = txmq.open(warehouse=warehouse({}))
    with pytest.raises(txmq.TxmqError, match="pending cannot be asked for colour; it takes broker, group, topic"):
        opened.pending(colour="red")
    with pytest.raises(txmq.TxmqError, match="there is no view pendings; there are pending, "):
        opened.view("pendings")
    with pytest.raises(txmq.TxmqError, match="verdicts has no state LOST; there are "):
        opened.verdicts(state="LOST")
    with pytest.raises(txmq.TxmqError, match="no warehouse at "):
        txmq.open(warehouse=tmp_path / "none").pending().count()
    with pytest.raises(AttributeError, match="txmq has no opened; it offers Limits, Records, Rows, Txmq"):
        txmq.opened  # noqa: B018


def test_a_trace_tells_its_events(warehouse):
    half = {
        "transaction_id": "OLD",
        "broker_name": "a",
        "store_timestamp": NOW_TEXT,
        "real_topic": "T",
        "real_queue_id": 0,
    }
    opened = txmq.open(warehouse=warehouse({"half_message": [half]}))
    (story,) = opened.trace("OLD")
    assert story.events[0].event == "half_stored"
    assert opened.trace("UNKNOWN") == []


def test_settings_are_found_as_those_of_the_command_line(warehouse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TXMQ_CONF", raising=False)
    uri = warehouse(HALVES)
    (tmp_path / "txmq.yaml").write_text(f"warehouse: {uri}\n")
    assert repr(txmq.open()) == f"Txmq({uri!r})"
    (tmp_path / "b.yaml").write_text("warehouse: elsewhere\n")
    assert txmq.open("b.yaml").warehouse == str(tmp_path / "elsewhere")
    assert txmq.open(["txmq.yaml", "b.yaml"], warehouse=uri).warehouse == uri


def test_importing_it_imports_nothing_heavy_and_it_has_a_version():
    code = "import sys, txmq_lib as t; print(t.__version__); print({'pyspark', 'duckdb', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [txmq.__version__, "set()"]
    assert {"Rows", "Txmq", "TxmqError", "__version__", "open", "register", "verdicts_of"} <= set(txmq.__all__)
    assert all(hasattr(txmq, name) for name in txmq.__all__)


def test_the_lines_of_the_page_run(warehouse, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "pages" / "python.md").read_text()
    first = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    stuck = {"transaction_id": ID, "producer_group": "GID_ORDERS", "check_times": 3}
    half = {"transaction_id": ID, "store_timestamp": NOW_TEXT, "real_topic": "T", "real_queue_id": 0}
    uri = warehouse({"pending_half": [stuck], "half_message": [half]})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.yaml").write_text(f"warehouse: {uri}\nrole: audit\n")
    names: dict[str, object] = {}
    exec(first, names)
    assert names["table"].num_rows == 1
    output = capsys.readouterr().out.splitlines()
    assert output[0] == f"{ID} 3"
    assert output[1].startswith(NOW_TEXT.replace("Z", ".000Z half message stored at queue 0"))


def test_what_the_page_calls_public_is(warehouse):
    page = (Path(__file__).parents[2] / "docs" / "pages" / "python.md").read_text()
    public = page.partition("## What is public")[2].partition("typed")[0]
    assert set(re.findall(r"`(\w+)`", public)) == set(txmq.__all__)
    assert all(f"`{view.command.replace('-', '_')}`" in page for view in VIEWS)
