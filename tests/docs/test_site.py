"""The site builds without a warning, fetches nothing when it is read, and leaves out nothing of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import reference
import typer
from pages import PAGES, ROOT, blocks

from txmq_lib import errors
from txmq_lib.cli.app import app
from txmq_lib.config.resolver_settings import RESOLVER_KINDS
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TOP = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is an error."""
    directory = tmp_path_factory.mktemp("site")
    command = [str(Path(sys.executable).with_name("properdocs")), "build", "--strict", "--config-file",
               str(ROOT / "docs" / "properdocs.yml"), "--site-dir", str(directory)]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return directory


class Page(HTMLParser):
    """What an HTML page loads, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in LOADING and attributes.get("rel") != "canonical":
            self.loaded.append(attributes.get(LOADING[tag]) or "")

    def handle_data(self, data):
        self.text += data


def test_the_site_builds_strictly_and_holds_every_page(site):
    pages = {path.relative_to(PAGES).with_suffix(".html") for path in PAGES.rglob("*.md")}
    pages |= {Path("reference", f"{name}.html") for name in reference.PAGES}
    assert {path.relative_to(site) for path in site.rglob("*.html")} >= pages


def test_the_site_loads_nothing_from_a_network(site):
    for path in site.rglob("*.html"):
        loaded = Page(path.read_text(encoding="utf-8")).loaded
        assert [address for address in loaded if urlsplit(address).netloc] == [], path
    for path in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//|@import", path.read_text(encoding="utf-8")) == [], path


def test_every_page_can_be_read_where_it_lies():
    for path in PAGES.rglob("*.md"):
        assert "--8<--" not in path.read_text(encoding="utf-8"), path


def test_every_command_and_option_is_in_the_site(site):
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    program = typer.main.get_command(app)
    leaves = {"txmq": program}
    for name, command in program.commands.items():
        for leaf_name, leaf in getattr(command, "commands", {"": command}).items():
            leaves[f"txmq {name} {leaf_name}".rstrip()] = leaf
    sections = dict(re.findall(r"<h3 id=\"[^\"]*\">([^<]*)<.*?</h3>(.*?)(?=<h[23]|\Z)", text, re.DOTALL))
    assert set(sections) == set(leaves)
    for name, leaf in leaves.items():
        page_text = Page(sections[name]).text
        for parameter in leaf.params:
            spelt = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or parameter.name]
            assert [each for each in spelt if each not in page_text] == [], name


def test_every_setting_with_its_default_is_in_the_site_and_says_what_it_means(site):
    rows = table_rows(reference.settings_page())
    documented = {row[0].strip("`"): row[1:] for row in rows}
    headed = set(re.findall(r"^## (\w+)$", reference.settings_page(), re.MULTILINE))
    html = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    for key, value, _ in Settings.load().rows():
        if key not in documented:
            assert key in headed, key
            assert f"Default: `{json.dumps(value)}`" in reference.settings_page(), key
            continue
        default, meaning = documented[key]
        assert default == f"`{reference.as_yaml(value)}`"
        assert len(meaning) > 5, key
        assert key in html
    meanings = [row[-1] for row in rows if len(row) == 3]
    assert len(set(meanings)) == len(meanings), "two settings share one meaning"


def test_every_key_of_every_kind_of_resolver_is_in_the_site():
    page = reference.settings_page()
    example = page.partition("## resolvers")[2].partition("### kind")[0]
    for kind, model in RESOLVER_KINDS.items():
        keys = {field.alias or name for name, field in model.model_fields.items()} - {"kind"}
        section = page.partition(f"### kind: {kind}\n")[2].partition("\n#")[0]
        assert {row[0].strip("`") for row in table_rows(section)} == keys
        assert [key for key in keys if key not in example] == [], "conf/base.yaml does not explain it"


def test_every_table_and_column_is_in_the_site():
    page = reference.tables_page()
    for name, spec in table_specs().items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert spec.doc in section
        documented = {row[0].strip("`"): row[1:] for row in table_rows(section)}
        assert list(documented) == list(spec.columns)
        for field in spec.fields:
            assert documented[field.name][-1] == field.comment
            assert (documented[field.name][1] == "required") is not field.nullable


def test_every_error_code_has_a_line_in_troubleshooting():
    text = (PAGES / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("## By error code")[2].partition("\n## ")[0]
    documented = {row[0].strip("`"): row[1] for row in table_rows(section)}
    known = {
        error.code: str(error.exit_status)
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.TxmqError)
    }
    assert documented == {**known, "UNEXPECTED": str(errors.EXIT_FAILED)}


def test_the_rules_that_differ_are_rules_and_stand_in_order():
    text = (PAGES / "differences.md").read_text(encoding="utf-8")
    rules = [int(rule) for row in table_rows(text) for rule in re.findall(r"R(\d+)", row[0])]
    assert len(rules) == len(set(rules)) > 50
    assert set(rules) <= set(range(1, 116))
    for section in text.split("\n## ")[1:]:
        first = [int(re.findall(r"R(\d+)", row[0])[0]) for row in table_rows(section)]
        assert first == sorted(first)


@pytest.mark.parametrize("path", TOP, ids=[path.name for path in TOP])
def test_links_of_the_texts_at_the_top_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if urlsplit(link).scheme:
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / unquote(file) if file else path
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in headings}


def test_links_away_from_here_are_well_formed():
    # They are not followed: tests talk to loopback only.
    links = [(path, link) for path in (*TOP, *PAGES.rglob("*.md")) for link in LINK.findall(path.read_text("utf-8"))]
    away = [(path, urlsplit(link)) for path, link in links if urlsplit(link).scheme]
    assert [
        path for path, parts in away if parts.scheme != "https" or not re.fullmatch(r"[\w.-]+\.\w+", parts.netloc)
    ] == []


def test_settings_files_of_the_pages_have_no_fault_but_the_faulty_one(tmp_path):
    for page in PAGES.rglob("*.md"):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "yaml" and block.file != "faulty.yaml":
                path = tmp_path / "settings.yaml"
                path.write_text(block.text, encoding="utf-8")
                Settings.load([path])


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without the heads."""
    lines = text.splitlines()
    rules = {number for number, line in enumerate(lines) if line and set(line) <= set("|- ")}
    heads = {number - 1 for number in rules}
    rows = [line for number, line in enumerate(lines) if line.startswith("|") and number not in rules | heads]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
