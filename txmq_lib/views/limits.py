"""Limits of what may be counted, and the problem that each figure past its limit is. Limits are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from txmq_lib.views.status import span_text


@dataclass(frozen=True)
class Limits:
    """What may be counted without a finding; None: anything. Spans are in milliseconds.

    producer_groups, consumer_groups, brokers  what single ones have instead, by the name of the field here; others are
        as all
    """

    pending: int | None = None
    pending_age_ms: int | None = None
    given_up: int | None = None
    contradicted: int | None = None
    orphans: int | None = None
    unchecked: int | None = None
    lag: int | None = None
    lag_states: int | None = None
    landing_behind_ms: int | None = None
    no_landing_ms: int | None = None
    failing: int | None = None
    quarantined: int | None = None
    producer_groups: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    consumer_groups: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    brokers: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """Something to look at: in words, the command that shows more, the limit it is past (None: there is none), and the
    name it keeps while its figures change (empty without a limit)."""

    text: str
    command: str
    limit: str | None = None
    condition: str = ""


def past(
    limit: str,
    count: int,
    most: int | None,
    what: str,
    command: str,
    whose: str = "",
    place: str = "",
    *,
    is_counted: bool = True,
) -> Iterator[Problem]:
    """A problem where more is counted than `most`; `place` is where in the settings that stands, for one alone."""
    if most is not None and count > most:
        named = f"thresholds.{_of(place, whose)}{limit} {most:,}"
        yield Problem(f"{count:,} {what}" if is_counted else what, command, named, _condition(limit, whose))


def past_span(
    limit: str, age: timedelta, most_ms: int | None, what: str, command: str, whose: str = "", place: str = ""
) -> Iterator[Problem]:
    """The same of a span, in milliseconds."""
    if most_ms is not None and age > timedelta(milliseconds=most_ms):
        named = f"thresholds.{_of(place, whose)}{limit} {span_text(timedelta(milliseconds=most_ms))}"
        yield Problem(f"{what}: {span_text(age)}", command, named, _condition(limit, whose))


def _of(place: str, whose: str) -> str:
    return f"{place}.{whose.rpartition('/')[2]}." if place else ""


def _condition(limit: str, whose: str) -> str:
    return f"{limit} {whose}" if whose else limit
