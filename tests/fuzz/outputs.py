"""Names that are anything, in every output: none moves a cursor, forges a line, runs a cell or ends the program."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from random import Random

from fuzz.hostile import ODD_TEXTS, text
from moment import NOW

from txmq_lib.alerts.changes import Alert
from txmq_lib.cli.output.render import write_csv, write_json
from txmq_lib.cli.run.alert import _payload
from txmq_lib.cli.run.status import aligned
from txmq_lib.escaping import LONGEST_LINE, chart_names, line, page_words
from txmq_lib.report import charts
from txmq_lib.report.chart import HUES, WIDE, Chart
from txmq_lib.report.page import Finding, Report, Tile, html
from txmq_lib.report.parts import Section, Table

TAKEN_IN_JAVASCRIPT = ("toString", "constructor", "__proto__", "hasOwnProperty", "valueOf", "prototype")
FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", " =1", "\uff1d1")
CHAT = ("<!channel>", "@here", "[a](http://b)", "<http://a|b>", "![](//x)", "`", "*a*")


def outputs(chance: Random) -> int:
    """A name in a line, in JSON, CSV, a column of the status, a page and a webhook."""
    name = _name(chance)
    for said in (line(name), page_words(name), *aligned(("group", "count"), [(name, "1")])):
        assert said.isprintable(), repr(said)
        assert len(said) <= LONGEST_LINE * 10
    _json_is_exact(name)
    _csv_runs_nothing(name)
    payload = _payload("firing", Alert(f"lag {name}", name, "l", f"txmq x --group {name}", "s"), "w", NOW)
    assert all(value.isprintable() for value in payload.values())
    assert not set("<>[]@`*#~") & set(payload["text"])
    assert "://" not in payload["text"]
    return 1


def page(chance: Random) -> int:
    """Names on the page of a report, and the names of what it draws: another for each."""
    names = [_name(chance) for _ in range(chance.randrange(1, 9))]
    table = Table(names[0], ("group",), [(name,) for name in names])
    section = Section("a", "A", words=names, tables=[table])
    made = html(
        Report(names[0], "now", "then", [Tile("t", names[0], "a")], [Finding(names[0], names[-1], True)], [section])
    )
    assert all(each.isprintable() or each == "\n" for each in made.partition("<body>")[2])
    assert made.count("<script") == 1
    called = chart_names(names)
    assert len(set(called.values())) == len(set(names))
    return 1


def drawing(chance: Random) -> int:
    """A chart of such names is drawn, with a bar for each."""
    names = list(dict.fromkeys(_name(chance) for _ in range(3)))
    rows = [(name, "few", 1.0) for name in names]
    drawn = Chart("t", "s", charts.bars(rows, "transactions", ["few"], HUES)).svg(WIDE)
    assert drawn.count('aria-roledescription="bar"') == len(names), (names, drawn.count("<path"))
    return 1


def _name(chance: Random) -> str:
    known = (*ODD_TEXTS, *TAKEN_IN_JAVASCRIPT, *FORMULAS, *CHAT)
    parts = [chance.choice([text(chance), chance.choice(known)]) for _ in range(chance.choice([1, 1, 2, 3]))]
    return "".join(parts) * chance.choice([1, 1, 1, 1, 1, 300])


def _json_is_exact(name: str) -> None:
    out = io.StringIO()
    write_json(("group",), [(name,)], out)
    assert out.getvalue()[:-1].isprintable()
    # Two halves of a pair beside each other come back as the pair; no table holds halves.
    whole = name.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(out.getvalue()) == {"group": whole}


def _csv_runs_nothing(name: str) -> None:
    out = io.StringIO(newline="")
    write_csv(("group", "count"), [(name, -1)], out)
    _, (cell, count) = _cells(out.getvalue())
    assert count == "-1"
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert cell.replace("\n", "").isprintable()


def _cells(written: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(written, newline=""))
