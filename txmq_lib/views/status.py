"""Whether transactions are well: the figures of one screen, and what is wrong in them. Clock and limits are given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from txmq_lib import names
from txmq_lib.views import figures
from txmq_lib.views.cursors import StoppedChecks, stopped_checks
from txmq_lib.views.figures import (
    CheckFigures,
    DecidedByHand,
    Differing,
    Landed,
    LastPass,
    OffsetGroup,
    Orphans,
    PendingGroup,
    Quarantined,
)
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader

# What each verdict that somebody should look at means; the others are how transactions should end.
TROUBLES = {
    names.DUPLICATED: "visible more than once",
    names.CONFLICT: "committed and contradicted",
    names.COMMITTED_OP_LOST: "visible, the op lost: a second delivery may come",
    names.DISCARDED: "given up, nobody decided",
    names.DISCARDED_UNSEEN: "given up without a trace, nobody decided",
    names.DIVERTED: "lost to a delay or timer property",
    names.EXPIRED_UNSEEN: "expired, never seen by a check",
}
# How far what somebody decided has come, while the verdict does not show it (`decision` of the view verdicts).
DECIDED = {
    "recorded": ("decided by hand: reconcile, then audit", "decisions"),
    "to be sent": ("decided by hand, not sent to their broker", "decisions"),
    names.REQUEST_NOT_SENT: ("decided by hand, not sent to their broker", f"sent --state {names.REQUEST_NOT_SENT}"),
    names.REQUEST_REFUSED: ("sent, and refused by their broker", f"sent --state {names.REQUEST_REFUSED}"),
    names.REQUEST_ACCEPTED: ("taken by their broker: land, then audit", f"sent --state {names.REQUEST_ACCEPTED}"),
    names.REQUEST_UNANSWERED: ("sent, unanswered: land, then audit", f"sent --state {names.REQUEST_UNANSWERED}"),
    names.REQUEST_SENDING: ("sent, maybe: land, then audit", f"sent --state {names.REQUEST_SENDING}"),
}
LAG_TROUBLES = {
    names.LAG_STOPPED: "stopped: messages wait, nobody reports",
    names.LAG_STALLED: "stalled: messages wait, the offset does not move",
    names.LAG_FALLING_BEHIND: "falling behind",
    names.LAG_REWOUND: "rewound, not back yet",
    names.LAG_AHEAD: "ahead of the end of the queue",
    names.LAG_BELOW_OLDEST: "below the oldest message kept",
    names.LAG_NEVER_COMMITTED: "never committed by their group",
}
# Jobs whose rows the audit judges.
BEFORE_AUDIT = ("land", "reconcile", "resume")
CONTRADICTED = (names.DUPLICATED, names.CONFLICT)


@dataclass(frozen=True)
class VerdictCount:
    """Transactions with one verdict, how many of them the newest audit pass gave it, and how many have which reason
    (those of a version without reasons have none)."""

    verdict: str
    count: int
    last_pass: int
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Status:
    """The figures of one warehouse at one moment; groups and reasons come with the largest first."""

    now: datetime
    pending: tuple[PendingGroup, ...]
    checks: CheckFigures
    given_up: int
    last_given_up_timestamp: datetime | None
    verdicts: tuple[VerdictCount, ...]
    decided: tuple[DecidedByHand, ...]
    offsets: tuple[OffsetGroup, ...]
    orphans: tuple[Orphans, ...]
    unchecked: tuple[StoppedChecks, ...]
    differing: tuple[Differing, ...]
    quarantine: tuple[Quarantined, ...]
    landed: tuple[Landed, ...]
    passes: tuple[LastPass, ...]

    @property
    def pending_count(self) -> int:
        """Undecided transactions."""
        return sum(group.count for group in self.pending)

    @property
    def oldest(self) -> PendingGroup | None:
        """The group of the oldest undecided transaction."""
        return min(self.pending, key=lambda group: group.oldest_timestamp, default=None)

    @property
    def is_empty(self) -> bool:
        """Nothing has landed yet, and so nothing was looked at."""
        # Ends and reports that landed alone move no queue: only their pass tells of them.
        has_landed = self.landed or any(last.job == "land" and last.pass_number for last in self.passes)
        return not any((has_landed, self.pending, self.verdicts, self.offsets, self.quarantine, self.given_up))

    def with_verdict(self, *verdicts: str) -> int:
        """Transactions with any of these verdicts."""
        return sum(row.count for row in self.verdicts if row.verdict in verdicts)

    @property
    def is_audit_due(self) -> bool:
        """Whether a pass that may change verdicts was committed after the last audit."""
        ended = {last.job: last.committed_timestamp for last in self.passes if last.committed_timestamp is not None}
        audited = ended.get("audit")
        return audited is not None and any(ended[job] > audited for job in BEFORE_AUDIT if job in ended)

    def undecided(self, verdict: str) -> int:
        """Transactions with this verdict of which nobody has decided anything since."""
        return self.with_verdict(verdict) - sum(row.count for row in self.decided if row.verdict == verdict)

    def just_quarantined(self) -> int:
        """Records that the newest passes of all jobs put into quarantine."""
        return sum(n for last in self.passes for step, n in last.counts.items() if step.startswith("quarantine"))


@dataclass(frozen=True)
class Limits:
    """What may be counted without a finding; None: anything. Spans are in milliseconds."""

    pending: int | None = None
    pending_age_ms: int | None = None
    given_up: int | None = None
    contradicted: int | None = None
    orphans: int | None = None
    unchecked: int | None = None
    lag: int | None = None
    landing_behind_ms: int | None = None
    quarantined: int | None = None


@dataclass(frozen=True)
class Problem:
    """Something to look at: in words, the command that shows more, the limit it is past (None: there is none), and the
    name it keeps while its figures change (empty without a limit)."""

    text: str
    command: str
    limit: str | None = None
    condition: str = ""


def read_status(reader: WarehouseReader, now: datetime, *, lag_window_ms: int) -> Status:
    """The figures, each from the newest rows of its table; several tables are read at a time."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        verdicts = pool.submit(figures.verdict_counts, reader)
        checks = pool.submit(figures.check_figures, reader)
        pending = pool.submit(figures.pending_groups, reader, now)
        passes = pool.submit(figures.last_passes, reader)
        offsets = pool.submit(figures.offset_groups, reader, LagWindow(now, lag_window_ms))
        landed = pool.submit(figures.landed, reader)
        quarantine = pool.submit(figures.quarantined, reader)
        orphans = pool.submit(figures.orphans, reader)
        decided = pool.submit(figures.decided_by_hand, reader)
        unchecked = pool.submit(stopped_checks, reader)
        differing = pool.submit(figures.differing, reader)
        given_up = pool.submit(reader.stored, "trans_check_max_time").result()
        return Status(
            now=now,
            pending=tuple(pending.result()),
            checks=checks.result(),
            given_up=given_up.row_count,
            last_given_up_timestamp=given_up.highest("given_up_timestamp"),
            verdicts=tuple(_with_change(verdicts.result(), passes.result())),
            decided=tuple(decided.result()),
            offsets=tuple(offsets.result()),
            orphans=tuple(orphans.result()),
            unchecked=tuple(unchecked.result()),
            differing=tuple(differing.result()),
            quarantine=tuple(quarantine.result()),
            landed=tuple(landed.result()),
            passes=tuple(passes.result()),
        )


def _with_change(counts: Mapping[str, Mapping[str | None, int]], passes: list[LastPass]) -> Iterator[VerdictCount]:
    # A settled verdict is written once, so what an audit pass wrote is what changed.
    changed = next((last.counts for last in passes if last.job == "audit"), {})
    for verdict in names.VERDICTS:
        if verdict in counts:
            reasons = {reason: count for reason, count in counts[verdict].items() if reason is not None}
            yield VerdictCount(verdict, sum(counts[verdict].values()), changed.get(f"verdict_{verdict}", 0), reasons)


def problems(status: Status, limits: Limits) -> list[Problem]:
    """Everything to look at, what is past a limit first."""
    found = [*_past_limits(status, limits), *_plain(status)]
    return [*(each for each in found if each.limit), *(each for each in found if not each.limit)]


def _past_limits(status: Status, limits: Limits) -> Iterator[Problem]:
    oldest = status.oldest
    age = status.now - oldest.oldest_timestamp if oldest else timedelta()
    yield from _past("pending", status.pending_count, limits.pending, "transactions undecided", "pending")
    yield from _past_span("pending_age", age, limits.pending_age_ms, "the oldest undecided transaction", "pending")
    unseen = status.undecided(names.DISCARDED_UNSEEN)
    given_up = status.undecided(names.DISCARDED) + unseen
    command = "verdicts --state discarded" + (" --state discarded_unseen" if unseen else "")
    yield from _past("given_up", given_up, limits.given_up, "given up and undecided", command)
    contradicted = status.with_verdict(*CONTRADICTED)
    command = "verdicts --state duplicated --state conflict"
    yield from _past("contradicted", contradicted, limits.contradicted, "duplicated or contradicted", command)
    for row in status.orphans:
        what = f"committed messages of {row.topic} on {row.broker_name} without a half: something was not read"
        command = f"orphans --state orphan --broker {shlex.quote(row.broker_name)} --topic {shlex.quote(row.topic)}"
        yield from _past("orphans", row.count, limits.orphans, what, command, f"{row.broker_name}/{row.topic}")
    for queue in status.unchecked:
        stood = span_text(queue.last_seen_timestamp - queue.first_seen_timestamp)
        what = (
            f"halves wait for checks of {queue.broker_name}, whose cursor of queue {queue.queue_id} stands for {stood}"
        )
        command = f"offsets --group {names.CHECK_GROUP} --broker {shlex.quote(queue.broker_name)}"
        whose = f"{queue.broker_name}/{queue.queue_id}"
        yield from _past("unchecked", queue.waiting, limits.unchecked, what, command, whose)
    for group in status.offsets:
        what = f"messages behind: consumer group {group.consumer_group}"
        whose = f"{group.broker_name}/{group.consumer_group}"
        command = f"offsets --group {shlex.quote(group.consumer_group)} --sort lag:desc"
        yield from _past("lag", group.lag, limits.lag, what, command, whose)
    for source in status.landed:
        if source.read_to_timestamp is not None:
            behind = status.now - source.read_to_timestamp
            what = f"landing of {source.broker_name} is behind"
            yield from _past_span(
                "landing_behind", behind, limits.landing_behind_ms, what, "passes --job land", source.broker_name
            )
    just = status.just_quarantined()
    yield from _past("quarantined", just, limits.quarantined, "records quarantined by the last passes", "quarantine")


def _past(limit: str, count: int, most: int | None, what: str, command: str, whose: str = "") -> Iterator[Problem]:
    if most is not None and count > most:
        yield Problem(f"{count:,} {what}", command, f"thresholds.{limit} {most:,}", _condition(limit, whose))


def _condition(limit: str, whose: str) -> str:
    return f"{limit} {whose}" if whose else limit


def _past_span(
    limit: str, age: timedelta, most_ms: int | None, what: str, command: str, whose: str = ""
) -> Iterator[Problem]:
    if most_ms is not None and age > timedelta(milliseconds=most_ms):
        longest = span_text(timedelta(milliseconds=most_ms))
        yield Problem(f"{what}: {span_text(age)}", command, f"thresholds.{limit} {longest}", _condition(limit, whose))


def _of_verdicts(status: Status) -> Iterator[Problem]:
    for row in status.verdicts:
        if (count := status.undecided(row.verdict)) and row.verdict in TROUBLES:
            yield Problem(f"{count:,} {TROUBLES[row.verdict]}", f"verdicts --state {row.verdict.lower()}")
    unknown = next((row.reasons for row in status.verdicts if row.verdict == names.RESOLVED_UNKNOWN), {})
    for reason in (reason for reason in names.UNKNOWN_REASONS if reason in unknown):
        text = f"{unknown[reason]:,} decided, commit or rollback not known: {reason}"
        yield Problem(text, f"verdicts --state resolved_unknown --reason {reason}")
    for ending, (text, command) in DECIDED.items():
        if count := sum(each.count for each in status.decided if each.decision.endswith(f" {ending}")):
            yield Problem(f"{count:,} {text}", command)


def _plain(status: Status) -> Iterator[Problem]:
    for last in status.passes:
        if last.unfinished_number is not None and last.unfinished_since is not None:
            age = span_text(status.now - last.unfinished_since)
            text = f"{last.job} pass {last.unfinished_number} started {age} ago, not ended"
            yield Problem(text, f"passes --job {last.job}")
    yield from _of_verdicts(status)
    for state, meaning in LAG_TROUBLES.items():
        if queues := sum(group.lag_states.get(state, 0) for group in status.offsets):
            yield Problem(f"{queues:,} consumer queues {meaning}", f"offsets --lag-state {state}")
    for broker in status.differing:
        yield Problem(
            f"{broker.broker_name}: {broker.differences}", f"brokers --broker {shlex.quote(broker.broker_name)} --wide"
        )
    if held := sum(row.count for row in status.quarantine):
        yield Problem(f"{held:,} records in quarantine", "quarantine")


def span_text(span: timedelta) -> str:
    """A span as people say it, in its two largest units: `3d 4h`, `12m 5s`; `-` before one that lies ahead."""
    seconds = int(abs(span.total_seconds()))
    parts = [(seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count}{unit}" for count, unit in parts[first : first + 2] if count] or ["0s"]
    return ("-" if span < timedelta(seconds=-1) else "") + " ".join(shown)
