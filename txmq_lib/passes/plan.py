"""A pass as it was planned: everything that it may depend on, recorded before anything is computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.pass_log import pass_tag


@dataclass(kw_only=True)
class Plan:
    """A pass as recorded, of which all that it writes is a pure function; and what this process knows of it beside.

    Recorded, and the same for whoever carries the plan on:
    input_versions  the version of each table that the pass reads
    since_versions  the version of each table up to which the job knew all; a table that is not there is read whole
    plan_id         who planned it; empty until that is recorded

    Of this process:
    is_own          whether it made the plan, or carries on that of another
    last_note       what the last committed pass of the job left for this one; empty in a plan of others
    lost_feeds      tables whose change feed no longer reaches back to their since version: they are read whole
    """

    warehouse: Warehouse
    job: str
    number: int
    now: datetime
    input_versions: dict[str, int]
    since_versions: dict[str, int]
    arguments: dict[str, Any]
    settings: Settings
    is_own: bool
    wall_clock: Callable[[], datetime]
    plan_id: str = ""
    last_note: dict[str, Any] = field(default_factory=dict)
    lost_feeds: frozenset[str] = frozenset()
    # Whether so little is to be done (runner.SMALL_PASS_BYTES) that rows are better computed and written from here than
    # by Spark. Known when the pass is carried out.
    is_small: bool = False
    # Whether the pass is computed to be looked at, and writes nothing.
    is_dry: bool = False

    @property
    def is_first(self) -> bool:
        """Whether all is new: no pass of this job was committed before, or all is to be judged anew (a new role)."""
        return not self.since_versions

    def known_to(self, table: str) -> int | None:
        """The version up to which the last committed pass of this job knew the table; None: it is read whole."""
        return None if table in self.lost_feeds else self.since_versions.get(table)

    def has_new_rows(self, table: str) -> bool:
        """False where the table has not moved since the last committed pass of this job."""
        return (self.known_to(table) or 0) < self.input_versions[table]

    def has_nothing_new(self, tables: Iterable[str]) -> bool:
        """True where none of `tables` has moved since the last committed pass of this job, nor a setting."""
        is_same = self.last_note.get("settings_fingerprint") == self.settings.fingerprint()
        return is_same and not any(self.has_new_rows(table) for table in tables)

    def tag(self, step: str) -> str:
        """What the commit of a step carries: whose it is, and by which plan."""
        return f"{pass_tag(self.job, self.number, step)} {self._plan_digest}"

    @cached_property
    def _plan_digest(self) -> str:
        plan = [
            str(self.now.astimezone(UTC)),
            sorted(self.input_versions.items()),
            sorted(self.since_versions.items()),
            json.dumps(self.arguments, sort_keys=True),
            self.settings.to_json(),
            self.plan_id,
        ]
        return hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:16]
