"""Several ends of one transaction: the first accepted decides, the rest repeat or contradict (R18)."""

from __future__ import annotations

import pytest
from builders import at, policies, rows, table_of
from moment import NOW

from txmq_lib.rules.end import judged_ends, matched_ends

pytestmark = pytest.mark.spark

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
ACCEPTED, REPEATED, CONTRADICTING, REFUSED = "accepted", "repeated", "contradicting", "refused"
DECIDES = "decides"  # accepted, and the one that counts


def end(second, code, landed=(1, 0), **more):
    """An end received so many seconds after NOW, landed in a pass at a place."""
    return {"ts": at(1_000 * second), "commit_or_rollback": code, "landed_pass": landed[0], "_place": landed[1], **more}


STORIES = [  # why, decided before, ends as listed, what becomes of each
    ("the same commit twice", None, [end(1, COMMIT), end(2, COMMIT)], [DECIDES, REPEATED]),
    ("the same rollback thrice", None, [end(3, ROLLBACK), end(1, ROLLBACK), end(2, ROLLBACK)],
     [REPEATED, DECIDES, REPEATED]),
    ("commit, then rollback", None, [end(1, COMMIT), end(2, ROLLBACK)], [DECIDES, CONTRADICTING]),
    ("rollback, then commit", None, [end(1, ROLLBACK), end(2, COMMIT)], [DECIDES, CONTRADICTING]),
    ("time decides, not landing", None, [end(2, ROLLBACK, (1, 0)), end(1, COMMIT, (2, 9))], [CONTRADICTING, DECIDES]),
    ("a millisecond decides", None, [end(1, COMMIT), end(0.999, ROLLBACK)], [CONTRADICTING, DECIDES]),
    ("at one time a commit comes before a rollback that landed first", None,
     [end(1, ROLLBACK, (1, 0)), end(1, COMMIT, (2, 5))], [CONTRADICTING, DECIDES]),
    ("at one time the commit that landed first", None, [end(1, COMMIT, (1, 7)), end(1, COMMIT, (1, 6))],
     [REPEATED, DECIDES]),
    ("an earlier landing comes before a later one, whatever the place", None,
     [end(1, COMMIT, (2, 0)), end(1, COMMIT, (1, 7))], [REPEATED, DECIDES]),
    ("landed at the same place: a received end before an answer found", None,
     [end(1, COMMIT, origin="resolve"), end(1, COMMIT, origin="landed")], [REPEATED, DECIDES]),
    ("unknown decides nothing, before or after", None,
     [end(1, UNKNOWN), end(2, ROLLBACK), end(3, UNKNOWN), end(4, COMMIT)],
     [ACCEPTED, DECIDES, ACCEPTED, CONTRADICTING]),
    ("a refused end decides nothing", None, [end(1, COMMIT, producer_group="x"), end(2, ROLLBACK), end(3, 5)],
     [REFUSED, DECIDES, REFUSED]),
    ("on the original and on its check copy: one transaction (R64)", None,
     [end(1, COMMIT), end(2, COMMIT, _copy=True)], [DECIDES, REPEATED]),
    ("on the check copy first", None, [end(2, ROLLBACK), end(1, COMMIT, _copy=True)], [CONTRADICTING, DECIDES]),
    ("committed in an earlier pass", "commit", [end(1, COMMIT), end(2, ROLLBACK), end(3, UNKNOWN)],
     [REPEATED, CONTRADICTING, ACCEPTED]),
    ("rolled back in an earlier pass, or given up so", "rollback", [end(-9, COMMIT), end(2, ROLLBACK)],
     [CONTRADICTING, REPEATED]),
    ("decided in an earlier pass, nobody knows how", "unknown", [end(1, COMMIT), end(2, ROLLBACK), end(3, UNKNOWN)],
     [REPEATED, REPEATED, ACCEPTED]),
    ("decided before, and an end that is refused", "commit", [end(1, COMMIT, tran_state_table_offset=9)], [REFUSED]),
]  # fmt: skip


def judged_stories(spark):
    """Per story a half, its check copy and its ends; each end is known by its landing place."""
    halves, ends, decided, names = [], [], [], {}
    for number, (why, prior, ends_of_story, _) in enumerate(STORIES):
        place = {"queue_offset": 10 * number, "commit_log_offset": 1_000 * number}
        copy = {"queue_offset": 10 * number + 1, "commit_log_offset": 1_000 * number + 500}
        halves += [{"transaction_id": why, **place}, {"transaction_id": why, "broker_check_times": 1, **copy}]
        if prior:
            decided.append({"transaction_id": why, "decision": prior})
        for turn, told_end in enumerate(ends_of_story):
            at_place = copy if told_end.get("_copy") else place
            named = {
                "tran_state_table_offset": at_place["queue_offset"],
                "commit_log_offset": at_place["commit_log_offset"],
                "landing_order": told_end["_place"],
                "msg_id": f"{why}/{turn}",
            }
            ends.append({**named, **{name: v for name, v in told_end.items() if not name.startswith("_")}})
            names[f"{why}/{turn}"] = (why, turn)
    prior = rows(spark, "end_outcome", decided).withColumnRenamed("decision", "prior_decision")
    matched = matched_ends(rows(spark, "end_transaction", ends), rows(spark, "half_message", halves))
    return judged_ends(matched, prior, policies=policies(), now=NOW), names


def test_the_first_accepted_end_decides_and_is_never_applied_twice(spark):
    judged, names = judged_stories(spark)
    found = table_of(judged, "msg_id", "outcome", "is_effective", "code")
    outcomes_told = {why: [None] * len(ends) for why, _, ends, _ in STORIES}
    for name, (outcome, is_effective, _) in found.items():
        why, turn = names[name]
        outcomes_told[why][turn] = DECIDES if is_effective and outcome == ACCEPTED else outcome
    assert outcomes_told == {why: outcomes for why, *_, outcomes in STORIES}
    answered = {name: code for name, (outcome, _, code) in found.items() if outcome in (REPEATED, CONTRADICTING)}
    assert set(answered.values()) == {0}, "R18: a broker answers SUCCESS to both"


def test_what_shares_an_id_is_not_one_transaction(spark):
    others = [("b", "PG", 0), ("b", "PG", 1), ("b", "PH", 0), ("c", "PG", 0)]
    halves = [{"broker_name": broker, "producer_group": group, "born_timestamp": at(born), "commit_log_offset": 100 * n,
               "queue_offset": n} for n, (broker, group, born) in enumerate(others)]  # fmt: skip
    ends = [{"broker_name": broker, "producer_group": group, "commit_log_offset": 100 * n, "tran_state_table_offset": n,
             "commit_or_rollback": ROLLBACK if n else COMMIT, "ts": at(10 + n), "landing_order": n}
            for n, (broker, group, _) in enumerate(others)]  # fmt: skip
    prior = rows(spark, "end_outcome", [{"born_timestamp": at(2), "decision": "commit"}])
    matched = matched_ends(rows(spark, "end_transaction", ends), rows(spark, "half_message", halves))
    judged = judged_ends(matched, prior.withColumnRenamed("decision", "prior_decision"), policies=policies(), now=NOW)
    assert table_of(judged, "landing_order", "outcome", "is_effective") == dict.fromkeys(range(4), ("accepted", True))
