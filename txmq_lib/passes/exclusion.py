"""Which passes may not be open together: a take-back, and whatever reads the rows that it takes back. Looks only."""

from __future__ import annotations

import json
from typing import Any

from txmq_lib.delta.log_view import DeltaLogView, TaggedCommit
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import JOB_MAINTAIN, JOB_TAKE_BACK
from txmq_lib.passes.pass_log import STARTED, app_id, last_take_back, pass_tag, unfinished

LAST_TAKE_BACK = "last_take_back"


def in_the_way(warehouse: Warehouse, job: str, number: int) -> str:
    """The unfinished passes, recorded before this one, beside which it must not be; empty for none.

    Rows that are taken back must not be read meanwhile. Of two that may not be open together the one recorded later
    gives way, whichever process has it in hand: both look after their plan has landed, so no process can have found the
    later one clear while the earlier one is open, and nothing of it has landed.
    """
    log = warehouse.log("pass")
    if job == JOB_MAINTAIN or not _was_ever_taken_back(log):
        return ""
    others = {
        other: unfinished_number
        for other, unfinished_number in unfinished(log).items()
        if other not in (job, JOB_MAINTAIN) and JOB_TAKE_BACK in (job, other)
    }
    recorded_at = _version_of(plan_commit(log, job, number))
    return ", ".join(
        f"{other} pass {unfinished_number}"
        for other, unfinished_number in others.items()
        if _version_of(plan_commit(log, other, unfinished_number)) < recorded_at
    )


def is_older_than_take_back(warehouse: Warehouse, job: str, number: int) -> bool:
    """Whether rows were taken back since the plan began to read: it may know rows that are gone, or a frontier.

    That take-back looked for unfinished passes before this plan was recorded, else it had given way: nobody can have
    found this plan clear.
    """
    log = warehouse.log("pass")
    if job in (JOB_MAINTAIN, JOB_TAKE_BACK) or not _was_ever_taken_back(log):
        return False
    latest = last_take_back(warehouse, log, looks=True)
    return bool(latest) and latest != plan_note(plan_commit(log, job, number)).get(LAST_TAKE_BACK, latest)


def last_done_take_back(warehouse: Warehouse, log: DeltaLogView) -> int:
    """The newest take-back that has done all it does, as far as is known; 0 where there is none.

    log  of `pass`, looked at no earlier than any table is known. Who knows of an older take-back than there is gives
         its plan up, and has looked at all tables by then.
    """
    latest = last_take_back(warehouse, log, looks=False)
    unfinished_number = unfinished(log).get(JOB_TAKE_BACK) if latest else None
    return latest if unfinished_number is None else min(latest, unfinished_number - 1)


def plan_commit(log: DeltaLogView, job: str, number: int) -> TaggedCommit | None:
    """The commit that has the plan, however long ago; None where the log no longer tells."""
    return log.tagged_commit(pass_tag(job, number, STARTED), after=-1)


def plan_note(plan: TaggedCommit | None) -> dict[str, Any]:
    """What a plan's commit notes beside its row."""
    return dict(json.loads(plan.note)) if plan is not None else {}


def _was_ever_taken_back(log: DeltaLogView) -> bool:
    return log.txn_version(app_id(JOB_TAKE_BACK, "pass", STARTED)) > 0


def _version_of(plan: TaggedCommit | None) -> int:
    return plan.version if plan is not None else -1
