"""Whether a pass would find nothing to do: nothing has landed, and time alone changes nothing yet."""

from __future__ import annotations

from collections.abc import Iterable

from txmq_lib.passes.current import Pass
from txmq_lib.rules.moments import epoch_ms


def is_idle(current: Pass, tables: Iterable[str]) -> bool:
    """True where none of `tables` nor a setting has changed, and the moment that the last pass named has not come."""
    due_ms = current.last_note.get("next_due_ms")
    is_due = due_ms is not None and epoch_ms(current.now) >= due_ms
    return current.has_nothing_new(tables) and not is_due
