"""Plans that are to end without a commit: one that failed before anything of it landed, one whose inputs are gone."""

from __future__ import annotations

import logging

from txmq_lib.errors import PlanInputsGone
from txmq_lib.passes.current import Pass
from txmq_lib.passes.pass_log import DROPPED

_LOGGER = logging.getLogger("txmq")


def drop_untouched(current: Pass) -> None:
    """Abandon a plan that has failed before anything of it landed: what failed it is told, not what fails here."""
    # A write may have landed and failed behind its commit, and another process may be about to make one.
    try:
        is_untouched = not current.has_written and current.has_landed_nothing()
        if is_untouched and current.occupy_begun() and current.claim(DROPPED):
            current.abandon()
    except Exception as error:
        _LOGGER.warning("%s pass %d stays open, the next start carries it on: %s", current.job, current.number, error)


def has_lost_inputs(current: Pass, *, lands_again: bool) -> bool:
    """Whether tables can no longer be read as a plan of others saw them; PlanInputsGone where rows would be lost."""
    gone = [] if current.is_own else current.gone_inputs()
    if gone and not lands_again and not (current.has_landed_nothing() or current.has_occupied_step):
        raise PlanInputsGone(
            f"{current.job} pass {current.number} is unfinished, and {', '.join(gone)} can no longer be read as it"
            " was when the pass was planned; put back a copy of the warehouse from before that pass"
        )
    return bool(gone)
