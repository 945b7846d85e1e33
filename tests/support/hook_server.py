"""A webhook on loopback that keeps what it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook(BaseHTTPRequestHandler):
    """Keeps what it is told, and answers as it should or as the test wants."""

    def do_POST(self) -> None:
        server: Any = self.server
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.told.append((self.path, self.headers.get("Authorization"), document))
        status = server.statuses.pop(0) if server.statuses else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hook_server() -> Iterator[Any]:
    """The server: `told` is path, authorization and body of each request, `statuses` what it answers first."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.told, server.statuses = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
