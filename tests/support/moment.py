"""The clock of tests: the moment that passes and views are given where a test does not say another."""

from __future__ import annotations

from datetime import UTC, datetime

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW_TEXT = "2026-11-21T12:00:00Z"  # the same for a command line
NOW_MS = 1_795_262_400_000
