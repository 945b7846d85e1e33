"""The figures of one screen, each from the newest rows of its table. The clock is given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from txmq_lib import names
from txmq_lib.views import figures, landing_figures
from txmq_lib.views.cursors import PassedOver, StoppedChecks, passed_over, stopped_checks
from txmq_lib.views.figures import CheckFigures, DecidedByHand, OffsetGroup, Orphans, PendingGroup
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.landing_figures import Differing, Landed, LastPass, Quarantined
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.runs import LandedRun, StepRuns, run_figures
from txmq_lib.views.tables import TABLES_AT_ONCE

# Jobs whose rows the audit judges.
BEFORE_AUDIT = ("land", "reconcile", "resume")
# Those that the figures read.
TABLES = (
    *("broker_request", "broker_set_up", "check_cursor", "check_request", "connected_producer", "consumer_offset"),
    *("consumer_offset_commit", "end_outcome", "landing_frontier", "manual_decision", "message", "orphan", "pass"),
    *("pending_half", "quarantine", "run", "trans_check_max_time", "verdict"),
)


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
    passed_over: tuple[PassedOver, ...]
    differing: tuple[Differing, ...]
    quarantine: tuple[Quarantined, ...]
    landed: tuple[Landed, ...]
    passes: tuple[LastPass, ...]
    runs: tuple[StepRuns, ...]
    landings: tuple[LandedRun, ...]

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


def read_status(
    reader: WarehouseReader, now: datetime, *, lag_window_ms: int, source_steps: Collection[str] = ()
) -> Status:
    """The figures, each from the newest rows of its table; several tables are read at a time.

    source_steps  the steps of the configured sources (`run_figures`)
    """
    reader.open_ahead(TABLES)
    with ThreadPoolExecutor(max_workers=TABLES_AT_ONCE if reader.is_far else 4) as pool:
        verdicts = pool.submit(figures.verdict_counts, reader)
        checks = pool.submit(figures.check_figures, reader)
        pending = pool.submit(figures.pending_groups, reader, now)
        passes = pool.submit(landing_figures.last_passes, reader)
        offsets = pool.submit(figures.offset_groups, reader, LagWindow(now, lag_window_ms))
        landed = pool.submit(landing_figures.landed, reader)
        quarantine = pool.submit(landing_figures.quarantined, reader)
        orphans = pool.submit(figures.orphans, reader)
        decided = pool.submit(figures.decided_by_hand, reader)
        unchecked = pool.submit(stopped_checks, reader)
        passed = pool.submit(passed_over, reader)
        differing = pool.submit(landing_figures.differing, reader)
        runs = pool.submit(run_figures, reader, source_steps)
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
            passed_over=tuple(passed.result()),
            differing=tuple(differing.result()),
            quarantine=tuple(quarantine.result()),
            landed=tuple(landed.result()),
            passes=tuple(passes.result()),
            runs=runs.result().steps,
            landings=runs.result().landings,
        )


def _with_change(counts: Mapping[str, Mapping[str | None, int]], passes: list[LastPass]) -> Iterator[VerdictCount]:
    # A settled verdict is written once, so what an audit pass wrote is what changed.
    changed = next((last.counts for last in passes if last.job == "audit"), {})
    for verdict in names.VERDICTS:
        if verdict in counts:
            reasons = {reason: count for reason, count in counts[verdict].items() if reason is not None}
            yield VerdictCount(verdict, sum(counts[verdict].values()), changed.get(f"verdict_{verdict}", 0), reasons)


def span_text(span: timedelta) -> str:
    """A span as people say it, in its two largest units: `3d 4h`, `12m 5s`; `-` before one that lies ahead."""
    seconds = int(abs(span.total_seconds()))
    parts = [(seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count}{unit}" for count, unit in parts[first : first + 2] if count] or ["0s"]
    return ("-" if span < timedelta(seconds=-1) else "") + " ".join(shown)
