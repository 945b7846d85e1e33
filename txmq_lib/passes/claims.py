"""Whose a plan is: its rows in the pass log, the claim that decides between processes, and abandoning it.

A plan is open from its row `started` to its row `committed` or `abandoned`. Between the two several processes may have
it in hand: the one that made it, and those that found it unfinished. Where they disagree about what becomes of it the
first claim stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from txmq_lib.config.resources import txmq_version
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conflicts import CONFLICTS
from txmq_lib.delta.conform import struct_type
from txmq_lib.delta.short_logs import shorten_longest_log
from txmq_lib.delta.small_writes import SmallWrite
from txmq_lib.delta.spark_writes import SparkWrite
from txmq_lib.errors import PassConflict
from txmq_lib.files.started_by import started_by
from txmq_lib.passes.pass_log import ABANDONED, CLAIM, app_id, durable_versions, last_ended, pass_tag
from txmq_lib.passes.plan import Plan
from txmq_lib.spark.local_frame import arrow_rows, local_frame


@dataclass(kw_only=True)
class Claims(Plan):
    """The rows of a plan in the pass log. `append_row`, `claim` and `abandon` write; the rest looks."""

    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _open_at_version: int = -1

    def claim(self, claimed: str) -> bool:
        """Say what becomes of this plan, unless a process has said so before; whether `claimed` is what stands.

        claimed  CARRIED_ON or DROPPED of the pass log; said by a commit without rows
        """
        tag = pass_tag(self.job, self.number, CLAIM)
        with suppress(*CONFLICTS):  # somebody else has just said it
            self._append_to_log(CLAIM, [], tag + "\n" + claimed)
        commit = self.warehouse.log("pass").tagged_commit(tag, after=-1)
        return commit is not None and commit.note == claimed

    def abandon(self) -> None:
        """End the plan without a commit, unless it has ended. What it wrote stays."""
        if last_ended(self.warehouse.log("pass"), self.job) < self.number:
            shorten_longest_log(self.warehouse, ["pass"])  # of jobs that fail again and again
            self.append_row(ABANDONED, {})

    @property
    def is_abandoned(self) -> bool:
        """Whether the plan has been abandoned by now, by whatever process."""
        log = self.warehouse.log("pass")
        if log.version == self._open_at_version:
            return False
        if log.txn_version(app_id(self.job, "pass", ABANDONED)) >= self.number:
            return True
        self._open_at_version = log.version
        return False

    def require_open(self) -> None:
        """PassConflict where the plan has been abandoned: what another process landed instead must not land twice."""
        if self.is_abandoned:
            raise self._abandoned_by_another()

    def _abandoned_by_another(self) -> PassConflict:
        return PassConflict(f"{self.job} pass {self.number} was abandoned by another process; run it again")

    def append_row(self, state: str, note: Mapping[str, Any], checkpoints: Mapping[str, int] | None = None) -> None:
        """Append the row of a state to the pass log, once; `note` goes with its commit.

        All that was written before is on the disk before the row, and the row when this returns.
        """
        self.make_durable()
        tag = pass_tag(self.job, self.number, state) + "\n" + json.dumps(note)
        try:
            self._append_to_log(state, [self._row(state, checkpoints)], tag)
        except CONFLICTS:
            # The same row by another process carrying the plan on: theirs stands.
            if self.warehouse.log("pass").txn_version(app_id(self.job, "pass", state)) < self.number:
                raise PassConflict(f"{self.job} pass {self.number} could not be {state}; try again") from None
        self.make_durable()
        self.warehouse.on_write("pass", state)

    def make_durable(self) -> None:
        """Put all that this plan, and others meanwhile, have written on the disk."""
        if not self.warehouse.is_on_disk:
            return
        passes = durable_versions(self.warehouse)["pass"]
        self.warehouse.make_durable({**self.input_versions, "pass": passes})

    def _row(self, state: str, checkpoints: Mapping[str, int] | None) -> dict[str, Any]:
        return {
            "job": self.job,
            "pass_number": self.number,
            "state": state,
            "now": self.now,
            "input_versions": self.input_versions,
            "since_versions": self.since_versions,
            "plan_id": self.plan_id,
            "arguments": json.dumps(self.arguments, sort_keys=True),
            "settings": self.settings.to_json(),
            "settings_fingerprint": self.settings.fingerprint(),
            "counts": dict(self.counts),
            "seconds": {step: round(taken, 3) for step, taken in self.seconds.items()},
            "checkpoints": dict(checkpoints or {}),
            "wall_timestamp": self.wall_clock(),
            "started_by": started_by(),
            "txmq_version": txmq_version(),
        }

    def _append_to_log(self, state: str, rows: list[dict[str, Any]], tag: str) -> None:
        warehouse, schema = self.warehouse, struct_type(table_spec("pass"))
        stamp = (app_id(self.job, "pass", state), self.number, tag)
        path = warehouse.small_path("pass")
        if path is not None:
            highest = partial(warehouse.highest_number, "pass", stamp[0])
            is_new = SmallWrite(*stamp, highest).append(path, arrow_rows(rows, schema))
        else:
            SparkWrite(*stamp).append(warehouse.path("pass"), local_frame(warehouse.spark, rows, schema))
            is_new = True  # Delta does not tell
        if is_new:
            warehouse.wrote("pass")
