"""The pass under way: a plan, its reader, its writer and its claims, and the commit that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txmq_lib.delta.last_seen import COLUMNS, columns_digest
from txmq_lib.delta.short_logs import shorten_longest_log
from txmq_lib.passes.pass_log import COMMITTED, INPUT_VERSIONS, OWN_VERSIONS, ROLE_GIVEN, last_role_given
from txmq_lib.passes.reader import Reader
from txmq_lib.passes.writer import Writer


@dataclass(frozen=True)
class PassReport:
    """What one pass did: rows written per step, other counts, wall seconds per step; sentences people should read.

    brokers   those whose landing went well, also where there was nothing new
    has_more  more of the same waits and could be done at once
    """

    job: str
    number: int
    counts: dict[str, int]
    seconds: dict[str, float]
    findings: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    has_more: bool = False


@dataclass(kw_only=True)
class Pass(Reader, Writer):
    """One planned pass of one job. What only reads takes it as a `Reader`."""

    def commit(
        self,
        counts: Mapping[str, int] | None = None,
        checkpoints: Mapping[str, int] | None = None,
        next_due_ms: int | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> PassReport:
        """Write the committed row, last of all; before it a checkpoint, where a table is due one.

        next_due_ms  tells the next pass when time alone gives it work
        note         what else the next pass of this job is to know
        """
        self.require_open()
        self.counts.update(counts or {})
        # Kept in the commit's note: the next pass of this job reads it without a Spark job.
        left = {
            INPUT_VERSIONS: self.input_versions,
            OWN_VERSIONS: self._own_versions,
            COLUMNS: columns_digest(),
            "settings_fingerprint": self.settings.fingerprint(),
            "next_due_ms": next_due_ms,
            ROLE_GIVEN: last_role_given(self.warehouse),
        }
        shorten_longest_log(self.warehouse, {"pass", *self._own_versions})
        self.append_row(COMMITTED, {**(note or {}), **left}, checkpoints)
        return PassReport(self.job, self.number, dict(self.counts), dict(self.seconds))
