"""Whatever a producer calls itself, its group, ids and clients: no output moves a cursor, forges a line or runs a cell."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import time
from datetime import timedelta
from html.parser import HTMLParser

from moment import NOW
from serving import TXMQ
from views.report_rows import rows

from txmq_lib.alerts.changes import Alert
from txmq_lib.cli.run.alert import _payload
from txmq_lib.report import charts
from txmq_lib.report.chart import HUES, WIDE, Chart

# Sequences of terminals, line ends of all kinds, marks of direction and without width, what has no sign at all.
ODD = "GID\x1b[2J\x9b31m\nno problem found\r\u2028error X: forged\x85\u202e\u2066\u200f\u200b\ufeff\U000e0041\x00\uffff"
SPELLED = (
    "GID\\x1b[2J\\x9b31m\\x0ano problem found\\x0d\\u2028error X: forged\\x85"
    "\\u202e\\u2066\\u200f\\u200b\\ufeff\\U000e0041\\x00\\uffff"
)
COMMANDS = ("pending", "verdicts", "messages", "offsets", "given-up", "checks", "passes", "quarantine")
AT = ("--now", NOW.isoformat())


def unfit(text: str) -> set[str]:
    return {each for each in text if not each.isprintable() and each != "\n"}


def test_tables_the_status_and_stories_show_what_has_no_sign_as_its_escape(warehouse, txmq):
    uri = warehouse(rows(ODD))
    outputs = {}
    for command in COMMANDS:
        wide = ("--wide",) if command not in ("passes",) else ()
        status, outputs[command], err = txmq("--warehouse", uri, command, *wide)
        assert (status, unfit(outputs[command] + err)) == (0, set()), command
    assert SPELLED in outputs["pending"]
    assert len(outputs["pending"].splitlines()) == 1 + 3
    _, outputs["status"], _ = txmq("--warehouse", uri, "status", *AT, "--set", "thresholds.lag=1")
    assert f"consumer group {SPELLED}" in outputs["status"]
    _, outputs["trace"], _ = txmq("--warehouse", uri, "trace", f"DUPLICATED{ODD}")
    assert f"DUPLICATED{SPELLED}" in outputs["trace"]
    assert unfit(outputs["status"] + outputs["trace"]) == set()
    assert not re.search(r"^(no problem found|error)", outputs["status"] + outputs["trace"], re.MULTILINE)
    _, _, err = txmq("--warehouse", uri, "trace", ODD)
    assert (unfit(err), err.count("\n")) == (set(), 1)


def test_json_is_exact_and_in_one_line_each(warehouse, txmq):
    uri = warehouse(rows(ODD))
    for command in (("pending", "--format", "json"), ("status", "--format", "json", *AT),
                    ("trace", f"DUPLICATED{ODD}", "--format", "json")):  # fmt: skip
        _, out, _ = txmq("--warehouse", uri, *command)
        assert unfit(out) == set(), command
        found = [json.loads(line) for line in out.split("\n")[:-1]]
        assert any(ODD in str(value) for value in _leaves(found)), command


def _leaves(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def test_a_spreadsheet_runs_no_cell(warehouse, txmq):
    begins = ("=", "+", "-", "@", " =", "\t=", "\r=", "\uff1d")
    halves = [half for each in begins for half in rows(f'{each}HYPERLINK("http://x","y")', pending=1)["pending_half"]]
    _, out, _ = txmq("--warehouse", warehouse({"pending_half": halves}), "pending", "--format", "csv")
    cells = [row["producer_group"] for row in csv.DictReader(io.StringIO(out))]
    assert len(set(cells)) == len(begins)
    assert [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d"))] == []
    assert all(cell.endswith('HYPERLINK("http://x","y")') for cell in cells)


def test_numbers_stay_numbers_in_csv_and_names_as_they_ought_to_be_are_untouched(warehouse, txmq):
    _, out, _ = txmq("--warehouse", warehouse(rows("GID_a-b%c|d")), "offsets", "--format", "csv", *AT)
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["consumer_group"], row["next_offset"], row["lag"]) == ("GID_a-b%c|d", "40", "10")


def test_csv_moves_no_cursor(warehouse, txmq):
    _, out, _ = txmq("--warehouse", warehouse(rows(ODD)), "pending", "--format", "csv")
    assert unfit(out) == set()


class Texts(HTMLParser):
    """The texts of a page, and how many marks each drawing has."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.feed(page)

    def handle_data(self, data):
        self.texts.append(data)


def report(txmq, uri, tmp_path):
    out = tmp_path / "report.html"
    code, _, err = txmq("--warehouse", uri, "report", "--out", str(out), *AT)
    return code, err, out.read_text(encoding="utf-8") if out.exists() else ""


def test_the_report_shows_them_too(warehouse, tmp_path):
    # In a process of its own: what draws charts ended the whole process here.
    out = tmp_path / "report.html"
    command = (TXMQ, "--warehouse", warehouse(rows(ODD)), "report", "--out", str(out))
    done = subprocess.run((*command, *AT), capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr[-500:]
    page = out.read_text(encoding="utf-8")
    texts = Texts(page).texts
    assert unfit("".join(texts)) == set()
    assert SPELLED in texts


def drawn(name: str) -> list[int]:
    """How many marks drawings with a name have: bars, standing ones, areas, lines."""
    ends = [NOW, NOW + timedelta(hours=1), NOW + timedelta(hours=2)]
    bar_rows = [(name, "few", 3.0), ("GID", "few", 5.0), (name, "many", 1.0)]
    lines = {name: [1, 2, 3], "GID": [1, 0, 1]}
    specs = (
        charts.bars(bar_rows, "transactions", ["few", "many"], HUES),
        charts.columns([("1s", name, 2.0), ("2s", "GID", 1.0)], "transactions", "time", [name, "GID"], HUES),
        charts.stacked_bars(lines, ends, "seconds", HUES),
        charts.stacked_areas(lines, ends, "transactions", HUES),
        charts.lines_over_time(lines, ends, "messages behind", HUES),
    )
    svgs = [Chart("title", "summary", spec).svg(WIDE) for spec in specs]
    assert all(f">{name}</text>" in svg for svg in svgs)
    return [len(re.findall(r"<(path|rect|line)", svg)) for svg in svgs]


def test_groups_are_drawn_that_are_called_as_what_every_object_has(capfd):
    plain = drawn("GID_PAY")
    for name in ("toString", "constructor", "__proto__", "hasOwnProperty"):
        assert drawn(name) == plain, name
    assert capfd.readouterr().err == ""  # what draws complains there, and goes on


def test_two_long_names_that_begin_alike_are_two_bars(warehouse, txmq, tmp_path):
    begin = "GID_" + "x" * 300
    content = rows(f"{begin}1")
    content["pending_half"] += rows(f"{begin}2")["pending_half"]
    _, _, page = report(txmq, warehouse(content), tmp_path)
    figure = re.search(r"<figure.*?Undecided now.*?</figure>", page, re.DOTALL).group()
    assert len(re.findall(r">GID_x+…?[^<]*</text>", figure)) == 2 * 2


def test_a_name_of_two_megabytes_ends_nothing(warehouse, txmq, tmp_path):
    name = "x" * 2_000_000
    uri = warehouse(rows(name))
    begun = time.monotonic()
    code, _, page = report(txmq, uri, tmp_path)
    assert (code, len(page) < 1_000_000) == (0, True)
    for command in (("status", *AT, "--set", "thresholds.lag=1"), ("trace", f"DUPLICATED{name}")):
        assert len(txmq("--warehouse", uri, *command)[1]) < 100_000
    assert txmq("--warehouse", uri, "pending")[0] == 0
    assert time.monotonic() - begun < 60


def test_an_error_in_several_lines_forges_none(warehouse, txmq):
    _, _, err = txmq("--warehouse", "w\nerror FORGED: \x1b[2J", "pending")
    assert unfit(err) == set()
    assert [line for line in err.splitlines() if line.startswith("error FORGED")] == []


CHATTY = "GID <!channel> [pay](http://x.example) @all <http://x.example|here> `a` *b* \x1b]0;t\x07\nforged"


def test_a_webhook_is_told_no_mention_no_markup_and_one_line():
    alert_told = Alert(f"lag b/{CHATTY}", f"9 messages behind: consumer group {CHATTY}", "thresholds.lag 1",
                 f"txmq offsets --group '{CHATTY}' --sort lag:desc", "2026-11-21T12:00:00.000Z")  # fmt: skip
    body = _payload("firing", alert_told, "/warehouse", NOW)
    assert set("<>[]@`*\\") & set(body["text"].replace("\\x", "").replace("\\u", "")) == set()
    assert "://" not in body["text"]
    assert "consumer group GID \\x3c\\x21channel\\x3e \\x5bpay\\x5d(http:\\x2f/x.example) \\x40all" in body["text"]
    assert all(unfit(value) == set() and "\n" not in value for value in body.values())
    long = Alert("c", "x" * 2_000_000, "l", "y" * 2_000_000, "s")
    assert len(json.dumps(_payload("firing", long, "/warehouse", NOW))) < 10_000
