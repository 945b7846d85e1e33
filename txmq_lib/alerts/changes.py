"""Which conditions began and which cleared since they were last told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Alert:
    """A condition past its limit: in words, with the limit, the command that shows more, and since when (ISO 8601)."""

    condition: str
    finding: str
    limit: str
    command: str
    since: str


@dataclass(frozen=True)
class Changes:
    """What is to be told: conditions that began, and those that cleared, as they were when they began."""

    begun: tuple[Alert, ...]
    cleared: tuple[Alert, ...]


def changes(sent: Mapping[str, Alert], found: Mapping[str, Alert]) -> Changes:
    """`found` against what was told and has not cleared since, both by condition; what stands is not told again."""
    begun = tuple(alert for condition, alert in found.items() if condition not in sent)
    cleared = tuple(alert for condition, alert in sent.items() if condition not in found)
    return Changes(begun, cleared)


def after(sent: Mapping[str, Alert], begun: Alert | None = None, cleared: Alert | None = None) -> dict[str, Alert]:
    """What is told once one of these was."""
    kept = {condition: alert for condition, alert in sent.items() if cleared is None or condition != cleared.condition}
    return kept if begun is None else {**kept, begun.condition: begun}
