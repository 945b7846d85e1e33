"""make vulnerabilities with a database on loopback that knows nothing, knows what everybody knows, or knows more."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "supply"


@contextmanager
def database(vulnerable: set[str]) -> Iterator[str]:
    """The address of one that speaks OSV's language."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, version = document["package"]["name"], document["version"]
            ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}]
            package = {"package": {"name": name, "ecosystem": "PyPI"}, "versions": [version], "ranges": ranges}
            times = {"published": "2019-04-07T00:29:00Z", "modified": "2019-04-07T00:29:00Z"}
            answer = {
                "id": "PYSEC-2019-217",
                "aliases": ["CVE-2019-10906"],
                "summary": "x",
                "affected": [package],
                **times,
            }
            body = json.dumps({"vulns": [answer]} if f"{name}=={version}" in vulnerable else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


@pytest.mark.parametrize(
    ("vulnerable", "status", "printed"),
    [
        (set(), 3, "NOT LOOKED UP: neither pypi nor osv could be asked"),
        ({"jinja2==2.10"}, 0, " 0 with known vulnerabilities, 0 not looked up (osv); jars are not among them"),
        ({"jinja2==2.10", "httpx==0.28.1"}, 1, "httpx 0.28.1: PYSEC-2019-217, CVE-2019-10906; mended in 99.1"),
    ],
)
def test_only_a_source_that_knows_anything_can_say_that_all_is_well(vulnerable, status, printed):
    subprocess.run(["make", str(TOOLS.relative_to(ROOT) / ".ready")], cwd=ROOT, check=True)
    script = [TOOLS / "bin" / "python", ROOT / "supply" / "vulnerabilities.py"]
    with database(vulnerable) as address:
        ran = subprocess.run([*script, "--osv-url", address], capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert printed in ran.stdout + ran.stderr
