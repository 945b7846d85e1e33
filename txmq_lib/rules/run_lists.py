"""Runs of one queue, or of a whole log, as a list at hand (rules/runs.py says what a run is). Pure.

What a pass learns of a queue comes to the driver as a few runs, and is joined there with those that were known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

MOST_RUNS = 1_000  # of one queue; of more the oldest are let go of, and prove nothing any more


class Run(NamedTuple):
    """Offsets [first_offset, end_offset), the places of the first and the last of them, and read_to."""

    first_offset: int
    end_offset: int
    first_commit_log_offset: int | None = None
    last_commit_log_offset: int | None = None
    read_to: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it tells of a place of the queue only."""
        return self.first_offset == self.end_offset


def highest(*numbers: int | None) -> int | None:
    """The highest of those that are known."""
    return max((number for number in numbers if number is not None), default=None)


def lowest(*numbers: int | None) -> int | None:
    """The lowest of those that are known."""
    return min((number for number in numbers if number is not None), default=None)


def joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Runs in any order as the fewest that say the same, ascending, the newest MOST_RUNS."""
    done: list[Run] = []
    for one in sorted(runs, key=_order):
        if done and _is_nothing_before(done[-1], one):
            done[-1] = one
        elif done and _meet(done[-1], one):
            done[-1] = _both(done[-1], one)
        else:
            done.append(one)
    return tuple(done[-MOST_RUNS:])


def told_to(runs: Sequence[Run], read_to: int | None, *, is_untold: bool) -> tuple[Run, ...]:
    """As told_to of rules/runs.py; tests hold both to one another."""
    last_told = highest(*[one.end_offset for one in runs if one.read_to is not None])
    if is_untold or last_told is None:
        return tuple(runs)
    return tuple(
        one._replace(read_to=highest(one.read_to, read_to))
        if one.read_to is not None and one.end_offset == last_told
        else one
        for one in runs
    )


def within_log(runs: Iterable[Run], log_end: int) -> tuple[Run, ...]:
    """`runs` without those places that do not lie before the end of the broker's log: they were misread.

    Of the last one of a run is known then that it lies no lower than the first.
    """

    def checked(one: Run) -> Run:
        first, last = _before(one.first_commit_log_offset, log_end), _before(one.last_commit_log_offset, log_end)
        return one._replace(first_commit_log_offset=first, last_commit_log_offset=first if last is None else last)

    return tuple(map(checked, runs))


def last_place(runs: Sequence[Run]) -> int | None:
    """The highest of the last places of `runs` (ascending) that the run behind does not contradict.

    As without_misread of rules/runs.py has them; tests hold both to one another.
    """
    placed = [one for one in runs if one.first_commit_log_offset is not None]
    misread = {one for one, behind in pairwise(placed) if _contradict(one, behind)}
    return highest(*[one.last_commit_log_offset for one in runs if one not in misread])


def _order(one: Run) -> tuple[float, ...]:
    # What nobody knows comes first, as where Spark sorts structs.
    return tuple(-math.inf if part is None else part for part in one)


def _is_nothing_before(last: Run, one: Run) -> bool:
    """Whether `last` says what lies from the queue's beginning on, and `one` begins there: it knows better."""
    return last.end_offset == 0 and one.first_offset == 0 and one.end_offset > 0


def _meet(last: Run, one: Run) -> bool:
    overlap = one.first_offset < last.end_offset
    is_same_place = one.is_empty and one.first_offset == last.first_offset
    # An empty run keeps what it says of its place until what lies before it has landed.
    has_rows = not last.is_empty or one.is_empty
    return overlap or is_same_place or (one.first_offset == last.end_offset and has_rows and _ascend(last, one))


def _ascend(last: Run, one: Run) -> bool:
    """Whether the places of `one` lie behind those of `last`, as far as both are known."""
    place, next_place = last.last_commit_log_offset, one.first_commit_log_offset
    return place is None or next_place is None or place < next_place


def _both(last: Run, one: Run) -> Run:
    is_longer = one.end_offset > last.end_offset
    # Of places that ascend a lower one is safe.
    end_place = one.last_commit_log_offset if is_longer and not one.is_empty else None
    read_to = last.read_to
    if one.end_offset == last.end_offset:
        read_to = highest(last.read_to, one.read_to)
    elif is_longer:
        read_to = one.read_to
    return last._replace(
        end_offset=max(last.end_offset, one.end_offset),
        last_commit_log_offset=last.last_commit_log_offset if end_place is None else end_place,
        read_to=read_to,
    )


def _before(place: int | None, log_end: int) -> int | None:
    return place if place is not None and place < log_end else None


def _contradict(one: Run, behind: Run) -> bool:
    """Whether the last place of `one` lies behind the first of the run behind it."""
    last, next_place = one.last_commit_log_offset, behind.first_commit_log_offset
    if last is None or next_place is None:
        return False
    # Where an empty run ends the next record may lie.
    return last > next_place or (last == next_place and not one.is_empty)
