"""What the rows of a transaction log mean: values mapped, absent rows judged by age, nothing taken for a rollback by mistake."""

from __future__ import annotations

from typing import Any

import pytest
from moment import NOW
from questions import check

from txmq_lib.answers.states import answers_of_rows, half_columns, looked_up
from txmq_lib.config.resolver_settings import DeltaResolver, state_text


def rules(**fields: Any) -> DeltaResolver:
    columns = {"kind": "delta", "uri": "x", "key_column": "id", "state_column": "state"}
    return DeltaResolver.model_validate({**columns, "commit": ["C"], "rollback": ["R"], "unknown": ["U"], **fields})


def said(rows, rules_=None, *checks):
    answers = answers_of_rows(checks or (check(),), rows, rules_ or rules(), now=NOW)
    return [(answer.answer, answer.reason) for answer in answers]


MAPPED = [  # why, state in the row, settings, answer, reason
    ("a commit", "C", {}, "commit", None),
    ("a rollback", "R", {}, "rollback", None),
    ("listed as unknown", "U", {}, "unknown", None),
    ("a value nobody listed", "c", {}, "unknown", "UNMAPPED"),
    ("no value at all", None, {}, "unknown", "UNMAPPED"),
    ("two-valued, as RocketMQ's listener: not committed means rollback", "X", {"unmapped": "rollback"}, "rollback", "UNMAPPED"),
    ("two-valued, but listed as unknown", "U", {"unmapped": "rollback"}, "unknown", None),
    ("two-valued, no value at all", None, {"unmapped": "rollback"}, "rollback", "UNMAPPED"),
    ("a number given as such in YAML", 1, {"commit": [1]}, "commit", None),
    ("a number the database has as text", "1", {"commit": [1]}, "commit", None),
    ("a boolean", True, {"commit": [True], "rollback": [False]}, "commit", None),
    ("a boolean that is false", False, {"commit": [True], "rollback": [False]}, "rollback", None),
    ("a padded CHAR column", "C   ", {}, "commit", None),
    ("bytes of a BINARY column", b"C", {}, "commit", None),
]  # fmt: skip


@pytest.mark.parametrize(("why", "state", "settings", "answer", "reason"), MAPPED, ids=[case[0] for case in MAPPED])
def test_a_row_says_what_the_settings_make_of_its_state(why, state, settings, answer, reason):
    assert said([("T", state)], rules(**settings)) == [(answer, reason)]


ABSENT = [  # why, age in seconds, absent_rollback_after, answer
    ("never a rollback by default, however old", 9e6, None, "unknown"),
    ("younger than the limit: the row may not be written yet", 59.999, "60s", "unknown"),
    ("as old as the limit", 60, "60s", "rollback"),
    ("older", 60.001, "60s", "rollback"),
    ("at once, where it is said so", 0, 0, "rollback"),
    ("born in the future", -1, 0, "unknown"),
]


@pytest.mark.parametrize(("why", "age_s", "limit", "answer"), ABSENT, ids=[case[0] for case in ABSENT])
def test_an_absent_row_is_a_rollback_only_past_the_age_set_for_it(why, age_s, limit, answer):
    assert said([], rules(absent_rollback_after=limit), check(age_s=age_s)) == [(answer, "ABSENT")]


def test_each_check_gets_the_answer_of_its_own_key_in_order():
    checks = [check("A"), check("B"), check("C"), check("A")]
    assert said([("B", "R"), ("A", "C")], None, *checks) == [
        ("commit", None), ("rollback", None), ("unknown", "ABSENT"), ("commit", None),
    ]  # fmt: skip


def test_rows_that_mean_different_things_are_no_answer_and_equal_ones_are_one():
    assert said([("T", "C"), ("T", "R")]) == [(None, "STATES_DIFFER")]
    assert said([("T", "C"), ("T", None)]) == [(None, "STATES_DIFFER")]
    assert said([("T", "C"), ("T", "C2")], rules(commit=["C", "C2"])) == [("commit", None)]


def test_where_keys_come_back_changed_no_row_is_taken_for_absent():
    at_once = rules(absent_rollback_after=0)
    checks = [check("abc"), check("known")]
    assert said([("ABC", "C"), ("known", "R")], at_once, *checks) == [(None, "FOREIGN_KEYS"), ("rollback", None)]
    assert said([("abc  ", "C")], at_once, check("abc")) == [("commit", None)], "a padded key is the key"


def test_what_is_looked_up_is_the_id_a_key_or_a_property_of_the_half():
    half = {"keys": "order-7 order-8", "properties": {"order": "42", "bad": "4x"}}
    assert looked_up(check("T"), rules()) == "T"
    assert looked_up(check(**half), rules(key="keys")) == "order-7"
    assert looked_up(check(**half), rules(key="property order")) == "42"
    assert looked_up(check(**half), rules(key="property order", key_type="integer")) == 42
    assert [half_columns(rules(key=key)) for key in ("transaction_id", "keys", "property order")] == [
        (), ("keys",), ("properties",),
    ]  # fmt: skip
    assert said([("42", "C")], rules(key="property order", key_type="integer"), check(**half)) == [("commit", None)]


def test_a_half_without_the_key_has_no_answer_and_is_never_absent():
    at_once = {"absent_rollback_after": 0}
    bare = check(keys=None, properties={"order": "", "bad": "4x"})
    for key, key_type, reason in (
        ("keys", "text", "KEY_MISSING"),
        ("property order", "text", "KEY_MISSING"),
        ("property other", "text", "KEY_MISSING"),
        ("property bad", "integer", "KEY_NOT_INTEGER"),
    ):
        assert said([], rules(key=key, key_type=key_type, **at_once), bare) == [(None, reason)], key


def test_the_text_of_a_state_is_that_of_yaml():
    assert [state_text(value) for value in (True, 1, "1 ", b"x ", 1.5)] == ["true", "1", "1", "x", "1.5"]


@pytest.mark.parametrize("key", ["1_0", " 7 ", "+7", "07", "-0", "\u0667", "7\n", "9" * 39, "9" * 5000])
def test_a_text_that_is_not_how_an_integer_is_written_is_looked_up_nowhere(key):
    by_order = rules(key="property order", key_type="integer", absent_rollback_after=0)
    assert said([("7", "C"), ("10", "C")], by_order, check(properties={"order": key})) == [(None, "KEY_NOT_INTEGER")]


def test_keys_that_blanks_alone_tell_apart_have_no_answer():
    checks = [check("T"), check("T "), check("other")]
    assert said([("T", "C"), ("other", "R")], None, *checks) == [
        (None, "FOREIGN_KEYS"), (None, "FOREIGN_KEYS"), ("rollback", None),
    ]  # fmt: skip
