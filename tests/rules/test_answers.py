"""Which checks are open, and the end an answer makes (R65, R68, R69)."""

from __future__ import annotations

import pytest
from builders import at, lines_of, rows, schema_of, table_of
from moment import NOW

from txmq_lib.rules.answers import end_of_answers, given_up_checks, open_checks, when_given_up

pytestmark = pytest.mark.spark

STORIES = [  # why, check times and last check of pending, answers as (check, answer, reason), known reasons or None: closed
    ("never asked", 0, None, [], None),
    ("asked, nobody answered", 1, -10, [], []),
    ("asked twice, the first answered unknown", 2, -10, [(-70, "unknown", None)], []),
    ("asked twice, the first not answered", 2, -10, [(-70, None, "UNREACHABLE")], []),
    ("answered unknown", 1, -10, [(-10, "unknown", "ABSENT")], None),
    ("not answered", 1, -10, [(-10, None, "UNREACHABLE")], ["UNREACHABLE"]),
    ("not answered twice over", 1, -10, [(-10, None, "UNREACHABLE"), (-10, None, "BAD_ANSWER")],
     ["BAD_ANSWER", "UNREACHABLE"]),
    ("not answered, then unknown", 1, -10, [(-10, None, "UNREACHABLE"), (-10, "unknown", None)], None),
    ("answered commit", 1, -10, [(-10, "commit", None)], None),
    ("answered rollback by an earlier check", 3, -10, [(-70, "rollback", None)], None),
    ("given up and asked on demand, then resumed", 1, -10, [(-500, "unknown", None)], []),
]  # fmt: skip


def test_the_newest_check_is_open_until_somebody_answers_it(spark):
    pending, requests, answers = [], [], []
    for number, (why, times, asked_at, said, _) in enumerate(STORIES):
        own = {"transaction_id": why, "producer_group": None if number % 2 else "PG"}
        last = None if asked_at is None else at(asked_at)
        pending.append({**own, "check_times": times, "last_check_timestamp": last, "commit_log_offset": 777})
        requests += [
            {**own, "check_times": turn, "check_timestamp": at((asked_at or 0) - 60 * (times - turn)),
             "commit_log_offset": number, "tran_state_table_offset": 10 + number}
            for turn in range(1, times + 1)
        ]  # fmt: skip
        answers += [
            {**own, "check_timestamp": at(ms), "answer": answer, "reason": reason} for ms, answer, reason in said
        ]
    requests.append({"transaction_id": "decided long ago", "check_timestamp": at(-10)})
    found = open_checks(
        rows(spark, "pending_half", pending),
        rows(spark, "check_request", requests),
        rows(spark, "check_answer", answers),
    )
    table_shown = table_of(found, "transaction_id", "check_times", "commit_log_offset", "tran_state_table_offset",
                    "asked_for", "known_reasons")  # fmt: skip
    assert {why: (*rest, sorted(reasons or [])) for why, (*rest, reasons) in table_shown.items()} == {
        why: (times, number, 10 + number, "check", reasons)
        for number, (why, times, _, _, reasons) in enumerate(STORIES)
        if reasons is not None
    }


def test_a_given_up_transaction_is_asked_about_by_its_newest_half(spark):
    halves = [
        {"transaction_id": name, "queue_offset": offset, "commit_log_offset": 10 * offset}
        for name, offset in (("lost", 1), ("lost", 4), ("unknown so far", 2), ("known", 3), ("committed since", 5))
    ]
    lost = [
        {"transaction_id": name, "queue_offset": place, "given_up_timestamp": at(-place), "check_times": times}
        for place, (name, times) in enumerate(
            [("lost", 3), ("lost", 1), ("unknown so far", None), ("known", 3), ("committed since", 3), ("no half", 3)]
        )
    ]
    answers = [
        {"transaction_id": "unknown so far", "check_timestamp": at(-2), "answer": "unknown", "asked_for": "given_up"},
        {"transaction_id": "known", "check_timestamp": at(-3), "answer": "rollback", "asked_for": "given_up"},
    ]
    unseen = [
        {
            "transaction_id": name,
            "verdict": "DISCARDED_UNSEEN",
            "checks_end_timestamp": ended,
            "last_timestamp": at(-20),
        }
        for name, ended in (("forgotten", at(-9)), ("forgotten by an older version", None))
    ]
    halves += [
        {"transaction_id": row["transaction_id"], "queue_offset": 6, "commit_log_offset": 60}
        for row in (*unseen, {"transaction_id": "pending"})
    ]
    verdicts = rows(spark, "verdict", [*unseen, {"transaction_id": "pending", "verdict": "PENDING"}])
    undecided = ("lost", "unknown so far", "known", "no half", "forgotten", "forgotten by an older version", "pending")
    found = given_up_checks(
        rows(spark, "verdict", [{"transaction_id": name} for name in undecided]),
        when_given_up(rows(spark, "trans_check_max_time", lost), verdicts),
        rows(spark, "half_message", halves),
        rows(spark, "check_answer", answers),
    )
    assert table_of(found, "transaction_id", "check_times", "check_timestamp", "tran_state_table_offset",
                    "commit_log_offset", "asked_for") == {
        "lost": (3, 0, 4, 40, "given_up"),
        "unknown so far": (0, -2, 2, 20, "given_up"),
        "forgotten": (0, -9, 6, 60, "given_up"),
        "forgotten by an older version": (0, -20, 6, 60, "given_up"),
    }  # fmt: skip


def test_an_answer_becomes_an_end_that_answers_a_check(spark):
    answers = [
        {"transaction_id": "b", "answer": "commit", "tran_state_table_offset": 5, "commit_log_offset": 50},
        {"transaction_id": "a", "answer": "rollback", "tran_state_table_offset": 6, "commit_log_offset": 60},
        {"transaction_id": "c", "answer": "unknown"},
        {"transaction_id": "d", "answer": None, "reason": "UNREACHABLE"},
    ]
    ends = end_of_answers(rows(spark, "check_answer", answers), now=NOW, origin="resolve", pass_number=7)
    assert sorted(ends.columns) == sorted(schema_of("end_transaction").names)
    assert lines_of(ends, "transaction_id", "commit_or_rollback", "tran_state_table_offset", "commit_log_offset", "ts",
                    "from_transaction_check", "producer_group", "origin", "landed_pass", "landing_order") == [
        ("a", 12, 6, 60, 0, True, "PG", "resolve", 7, 0),
        ("b", 8, 5, 50, 0, True, "PG", "resolve", 7, 1),
    ]  # fmt: skip
    assert len({row["content_hash"] for row in ends.collect()}) == 2
