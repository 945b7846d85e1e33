"""Rows of a transaction log become answers: values mapped, absent rows judged by age. Pure; asks nobody."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from txmq_lib.answers.protocol import (
    ABSENT,
    FOREIGN_KEYS,
    KEY_MISSING,
    KEY_NOT_INTEGER,
    STATES_DIFFER,
    UNMAPPED,
    Answer,
    Check,
    in_few_words,
    no_answer,
)
from txmq_lib.config.resolver_settings import PROPERTY_KEY, StateRules, state_text
from txmq_lib.names import COMMIT, ROLLBACK, UNKNOWN

# No column of Spark has more digits, and int() refuses thousands of them.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,37}")


def half_columns(rules: StateRules) -> tuple[str, ...]:
    """Columns of half_message that are needed to know what to look up."""
    if rules.key == "keys":
        return ("keys",)
    return ("properties",) if rules.key.startswith(PROPERTY_KEY) else ()


def looked_up(check: Check, rules: StateRules) -> str | int | Answer:
    """What is looked up for a check, in the type of the column; no answer where its half does not have it."""
    key = _key(check, rules)
    if not key:
        return no_answer(KEY_MISSING, f"the half message has no {rules.key}")
    if rules.key_type == "text":
        return key
    # What int() takes beyond this ("1_0", "07", "+7") is another text than the number's, and may be another's key.
    if _INTEGER.fullmatch(key) is None:
        return no_answer(KEY_NOT_INTEGER, f"{rules.key} of the half message is {key[:80]!r}, no integer")
    return int(key)


def answers_of_rows(
    checks: Sequence[Check], rows: Iterable[tuple[object, object]], rules: StateRules, *, now: datetime
) -> list[Answer]:
    """One answer per check, from the rows (key, state) found for what `looked_up` gave for them.

    A key that nobody asked about means that keys come back changed (a collation, a padded column): no row of this
    batch is then taken for absent, since absence may mean rollback. Keys asked about that blanks at their ends alone
    tell apart cannot be told apart in what comes back: none of them has an answer.
    """
    lookups = [looked_up(check, rules) for check in checks]
    states: defaultdict[str, set[str | None]] = defaultdict(set)
    for key, state in rows:
        states[state_text(key)].add(None if state is None else state_text(state))
    keys_by_rules: defaultdict[str, set[str | int]] = defaultdict(set)
    for key in lookups:
        if not isinstance(key, Answer):
            keys_by_rules[state_text(key)].add(key)
    foreign = next((key for key in states if key not in keys_by_rules), None)

    def answer_to(check: Check, key: str | int | Answer) -> Answer:
        if isinstance(key, Answer):
            return key
        if len(keys_by_rules[state_text(key)]) > 1:
            return no_answer(FOREIGN_KEYS, f"another key asked about differs from {key!r} in blanks alone")
        return _answer(check, states.get(state_text(key), set()), foreign, rules, now)

    return [answer_to(check, key) for check, key in zip(checks, lookups, strict=True)]


def _key(check: Check, rules: StateRules) -> str | None:
    if rules.key == "transaction_id":
        return check.transaction_id
    if rules.key == "keys":
        return next(iter((check.half.get("keys") or "").split()), None)
    properties = check.half.get("properties") or {}
    return properties.get(rules.key[len(PROPERTY_KEY) :].strip())


def _answer(check: Check, states: set[str | None], foreign: str | None, rules: StateRules, now: datetime) -> Answer:
    if not states:
        return _absent(check, foreign, rules, now)
    answers = {_mapped(state, rules) for state in states}
    shown = in_few_words(", ".join(sorted("NULL" if state is None else state for state in states)))
    if len(answers) > 1:
        return Answer(None, shown, STATES_DIFFER, "its rows mean different things")
    answer, reason = answers.pop()
    return Answer(answer, shown, reason)


def _mapped(state: str | None, rules: StateRules) -> tuple[str, str | None]:
    if state in rules.commit:
        return COMMIT, None
    if state in rules.rollback:
        return ROLLBACK, None
    if state in rules.unknown:
        return UNKNOWN, None
    return rules.unmapped, UNMAPPED


def _absent(check: Check, foreign: str | None, rules: StateRules, now: datetime) -> Answer:
    if foreign is not None:
        return no_answer(FOREIGN_KEYS, f"rows came back for {foreign!r}, which was not asked: keys are changed there")
    limit_ms = rules.absent_rollback_after_ms
    # The row may not be written yet: the local transaction may still run.
    is_old = limit_ms is not None and now - check.born_timestamp >= timedelta(milliseconds=limit_ms)
    return Answer(ROLLBACK if is_old else UNKNOWN, reason=ABSENT)
