"""What `txmq serve` refuses before it starts a JVM."""

from __future__ import annotations

import pytest

BROKERS = [{"broker_name": "audited", "role": "audit"}, {"broker_name": "own", "role": "engine"}]


@pytest.mark.parametrize(
    ("settings", "broker"),
    [
        (("role=audit",), "own"),
        ((), "audited"),
        (("role=engine", "brokers.audited.role=audit", "brokers.own.role=audit"), "own"),
    ],
)
def test_a_role_that_was_changed_ends_serve_at_its_start(warehouse, txmq, tmp_path, settings, broker):
    uri, health = warehouse({"broker": BROKERS}), tmp_path / "health.json"
    options = [part for each in settings for part in ("--set", each)]
    status, out, err = txmq("--warehouse", uri, *options, "serve", "--health-file", str(health))
    assert (status, out) == (2, "")
    assert err.startswith(f"error ROLE_CHANGED: broker {broker}: its rows were made in the role ")
    assert not health.exists()
