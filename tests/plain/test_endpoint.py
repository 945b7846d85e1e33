"""The HTTP endpoint of `txmq serve` at addresses of both kinds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from txmq_lib.cli.endpoint import Counted, endpoint, listen_address
from txmq_lib.service.health import Health


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_address_of_either_kind_is_listened_at(tmp_path, host):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    counted = Counted(str(tmp_path), tmp_path / "counted.json", lag_window_ms=1)
    with endpoint(listen_address(f"{host}:0"), health, counted, wake=lambda: None) as (_, port):
        health.running()
        with urlopen(f"http://{host}:{port}/health") as answer:
            assert json.load(answer)["state"] == "running"
