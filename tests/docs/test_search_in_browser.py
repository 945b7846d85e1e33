"""The search of the site in a real headless Chromium, from files and over http."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    program = Path(sys.executable).with_name("properdocs")
    command = [program, "build", "--quiet", "--config-file", ROOT / "docs" / "properdocs.yml", "--site-dir", place]
    subprocess.run(command, check=True, timeout=120)
    return place


@contextmanager
def over_http(site: Path):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=site)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextmanager
def from_files(site: Path):
    yield site.as_uri()


@pytest.mark.parametrize("place", [from_files, over_http])
def test_a_word_typed_on_any_page_finds_the_place(site, place):
    assert CHROMIUM, "no chromium here: as root, apt-get install chromium"
    with place(site) as root, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, said = browser.new_page(), []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith((root, "data:")) else said.append(request.url)
        )
        page.goto(f"{root}/reference/views.html")
        page.fill("input[name=q]", "check_max DISCARDED")
        page.press("input[name=q]", "Enter")
        page.wait_for_selector("#properdocs-search-results article")
        first = page.locator("#properdocs-search-results article a").first
        first.click()
        page.wait_for_load_state()
        assert "search.html" not in page.url
        assert "DISCARDED" in page.content()
        page.goto(f"{root}/search.html?q=xyzzynothing")
        page.wait_for_function(
            "document.getElementById('properdocs-search-results').textContent.includes('No results')"
        )
        page.fill("#properdocs-search-query", "quarantine")
        page.wait_for_selector("#properdocs-search-results article")
        assert said == []
        browser.close()
