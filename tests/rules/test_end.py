"""END_TRANSACTION requests one by one: taken, held, or refused for which reason (R11-R17)."""

from __future__ import annotations

import pytest
from builders import RESERVED_MS, at, policies, rows, schema_of, table_of
from chispa import assert_df_equality
from moment import NOW

from txmq_lib.rules.end import immunity_limit_ms, java_long, judged_ends, matched_ends, outcome_rows
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF_TOPIC, OP_TOPIC, MAX_TIME_TOPIC = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
TAKEN = ("accepted", None, 0, None, True)
HEARD = ("accepted", None, None, None, False)
HELD = ("held", None, None, None, False)


def refused(reason, remark, code=1):
    return ("refused", reason, code, remark, False)


NOT_FOUND = refused("PREPARED_NOT_FOUND", "Find prepared transaction message failed")
NEVER_LANDED = refused("HALF_NEVER_LANDED", "its half did not land within the reserved time")
TOO_LATE = refused("IMMUNITY_EXPIRED", "not set any response code", code=604)
CODE_WRONG = refused("COMMIT_OR_ROLLBACK_WRONG", "commitOrRollback field wrong")
GROUP_WRONG = refused("PRODUCER_GROUP_WRONG", "The producer group wrong")
GROUP_MISSING = refused("PRODUCER_GROUP_MISSING", "the half names no producer group")
OFFSET_WRONG = refused("STATE_TABLE_OFFSET_WRONG", "The transaction state table offset wrong")
TOPIC_MISSING = refused("REAL_TOPIC_MISSING", "the half names no real topic")
TOPIC_SYSTEM = refused("REAL_TOPIC_IS_SYSTEM", "the half's real topic is one of the transaction topics")
QUEUE_MISSING = refused("REAL_QUEUE_MISSING", "the half names no real queue")

NOWHERE = {"commit_log_offset": 999_999, "tran_state_table_offset": 999_999}
ANSWER = {"from_transaction_check": True}


def aged(ms, immunity):
    """A half born so long before the end's time, which is NOW."""
    return {"born_timestamp": at(-ms), "check_immunity": immunity}


EDGES = [  # why, code, the half at its physical offset, the end but for naming it right, what becomes of it
    ("a commit that names its half", COMMIT, {}, {}, TAKEN),
    ("a rollback", ROLLBACK, {}, {}, TAKEN),
    ("an answer to a check", COMMIT, {}, ANSWER, TAKEN),
    ("rollback from a check", ROLLBACK, {}, ANSWER, TAKEN),
    ("unknown: heard, no response (R13)", UNKNOWN, {}, {}, HEARD),
    ("unknown from a check", UNKNOWN, {}, ANSWER, HEARD),
    ("unknown about nothing that ever landed", UNKNOWN, {}, {**NOWHERE, "ts": at(-2 * RESERVED_MS)}, HEARD),
    ("unknown by another group is not looked at", UNKNOWN, {}, {"producer_group": "other"}, HEARD),
    ("a code of 5 (R11)", 5, {}, {}, CODE_WRONG),
    ("the prepared bit for a code", 4, {}, {}, CODE_WRONG),
    ("a negative code about nothing", -1, {}, NOWHERE, CODE_WRONG),
    ("no message begins there (R14)", COMMIT, {}, {"commit_log_offset": 999_999}, NOT_FOUND),
    ("rollback where no message begins", ROLLBACK, {}, {"commit_log_offset": 999_999}, NOT_FOUND),
    ("neither offset has landed", COMMIT, {}, NOWHERE, HELD),
    ("waited as long as is reserved", COMMIT, {}, {**NOWHERE, "ts": at(-RESERVED_MS)}, HELD),
    ("waited a millisecond longer", COMMIT, {}, {**NOWHERE, "ts": at(-RESERVED_MS - 1)}, NEVER_LANDED),
    ("stamped after now and not landed", COMMIT, {}, {**NOWHERE, "ts": at(1)}, HELD),
    ("stamped after now and landed", COMMIT, {}, {"ts": at(86_400_000)}, TAKEN),
    ("older than any check and without immunity", COMMIT, aged(RESERVED_MS, None), {}, TAKEN),
    ("as old as its immunity (R15)", COMMIT, aged(60_000, "60"), {}, TAKEN),
    ("a millisecond older", COMMIT, aged(60_001, "60"), {}, TOO_LATE),
    ("five seconds older, from no check", COMMIT, aged(65_000, "60"), {}, TOO_LATE),
    ("five seconds older, a rollback", ROLLBACK, aged(65_000, "60"), {}, TOO_LATE),
    ("five seconds older, answering a check", COMMIT, aged(65_000, "60"), ANSWER, TAKEN),
    ("immunity below the timeout, as old as that", COMMIT, aged(6_000, "1"), {}, TAKEN),
    ("immunity below the timeout, older than that", COMMIT, aged(6_001, "1"), {}, TOO_LATE),
    ("immunity of a word, as old as the timeout", COMMIT, aged(6_000, "abc"), {}, TAKEN),
    ("immunity of a word, older than the timeout", COMMIT, aged(6_001, "abc"), {}, TOO_LATE),
    ("immunity for ever", COMMIT, aged(RESERVED_MS, "9223372036854775807"), {}, TAKEN),
    ("received in time, judged long after", COMMIT, aged(2 * 86_400_000, "60"), {"ts": at(60_000 - 2 * 86_400_000)},
     TAKEN),
    ("born after it was received", COMMIT, aged(-1, "60"), {}, TAKEN),
    ("too late and of another group: too late is said", COMMIT, aged(60_001, "60"), {"producer_group": "x"}, TOO_LATE),
    ("another group (R16)", COMMIT, {}, {"producer_group": "PH"}, GROUP_WRONG),
    ("the group in other letters", COMMIT, {}, {"producer_group": "pg"}, GROUP_WRONG),
    ("no group named", COMMIT, {}, {"producer_group": None}, GROUP_WRONG),
    ("a half of no group", COMMIT, {"producer_group": None}, {}, GROUP_MISSING),
    ("no group at all on either side", COMMIT, {"producer_group": None}, {"producer_group": None}, GROUP_MISSING),
    ("another queue offset (R16)", COMMIT, {}, {"tran_state_table_offset": 999_999}, OFFSET_WRONG),
    ("another group and queue offset: the group is said", COMMIT, {},
     {"producer_group": "PH", "tran_state_table_offset": 999_999}, GROUP_WRONG),
    ("ids and topic are never looked at (R17)", COMMIT, {},
     {"transaction_id": "x", "msg_id": "y", "topic": "z"}, TAKEN),
    ("a half without real topic", COMMIT, {"real_topic": None}, {}, TOPIC_MISSING),
    ("rollback of a half without real topic", ROLLBACK, {"real_topic": None}, {}, TOPIC_MISSING),
    ("a half without real queue", COMMIT, {"real_queue_id": None}, {}, QUEUE_MISSING),
    ("a half that would go to a queue below 0", COMMIT, {"real_queue_id": -1}, {}, QUEUE_MISSING),
    ("a half that would go to the half topic", COMMIT, {"real_topic": HALF_TOPIC}, {}, TOPIC_SYSTEM),
    ("a half that would go to the op topic", COMMIT, {"real_topic": OP_TOPIC}, {}, TOPIC_SYSTEM),
    ("a half that would go to the given up", COMMIT, {"real_topic": MAX_TIME_TOPIC}, {}, TOPIC_SYSTEM),
]  # fmt: skip


def ends_and_halves(spark):
    """Per edge a half of its own and an end that names it; the end's place in its landing tells them apart."""
    halves, ends = [], []
    for number, (_, code, half, end, _) in enumerate(EDGES):
        place = {"queue_offset": number, "commit_log_offset": 1_000 * number}
        halves.append({"transaction_id": f"T{number}", "born_timestamp": at(-1_000), **place, **half})
        named = {"tran_state_table_offset": number, "commit_log_offset": 1_000 * number, "producer_group": "PG"}
        ends.append({"ts": NOW, "commit_or_rollback": code, "landing_order": number, **named, **end})
    return rows(spark, "end_transaction", ends), rows(spark, "half_message", halves)


def no_decisions(spark):
    return rows(spark, "end_outcome").withColumnRenamed("decision", "prior_decision")


def test_every_end_is_taken_held_or_refused_as_a_broker_would(spark):
    matched = matched_ends(*ends_and_halves(spark))
    judged = judged_ends(matched, no_decisions(spark), policies=policies(), now=NOW)
    found = table_of(judged, "landing_order", "outcome", "reason", "code", "remark", "is_effective", "decision")
    assert {EDGES[number][0]: line[:5] for number, line in found.items()} == {why: last for why, *_, last in EDGES}
    said = {COMMIT: "commit", ROLLBACK: "rollback", UNKNOWN: "unknown"}
    assert {number: line[5] for number, line in found.items()} == {
        number: said.get(code) for number, (_, code, *_) in enumerate(EDGES)
    }


def test_an_end_finds_the_half_at_its_physical_offset_of_its_own_broker(spark):
    halves = rows(
        spark,
        "half_message",
        [{"broker_name": "b", "commit_log_offset": 0, "queue_offset": 5, "transaction_id": "first of b"},
         {"broker_name": "b", "commit_log_offset": 50, "queue_offset": 6, "transaction_id": "second of b"},
         {"broker_name": "b", "commit_log_offset": 60, "queue_offset": 6, "queue_id": 1, "transaction_id": "queue 1"},
         {"broker_name": "c", "commit_log_offset": 50, "queue_offset": 7, "transaction_id": "of c"}],
    )  # fmt: skip
    named = [("b", 0, 5), ("b", 50, 7), ("c", 50, 5), ("b", 7, 6), ("c", 0, 5), ("b", 7, 8)]
    ends = [
        {"broker_name": broker, "commit_log_offset": physical, "tran_state_table_offset": offset, "landing_order": turn}
        for turn, (broker, physical, offset) in enumerate(named)
    ]
    matched = matched_ends(rows(spark, "end_transaction", ends), halves)
    assert table_of(matched, "landing_order", "transaction_id", "half_queue_offset", "is_queue_offset_landed") == {
        0: ("first of b", 5, True),
        1: ("second of b", 6, False),
        2: ("of c", 7, False),
        3: (None, None, True),
        4: (None, None, False),
        5: (None, None, False),
    }


def test_of_two_halves_at_one_place_an_end_means_that_of_its_queue_offset_or_none(spark):
    there = {"commit_log_offset": 50}
    halves = [{**there, "queue_offset": 5, "transaction_id": "five"}, {**there, "queue_offset": 6, "transaction_id": "six"},
              {**there, "queue_offset": 6, "queue_id": 1, "transaction_id": "six of queue 1"},
              {"commit_log_offset": 70, "queue_offset": 9, "transaction_id": "alone"}]  # fmt: skip
    ends = [
        {"commit_log_offset": place, "tran_state_table_offset": offset, "landing_order": turn}
        for turn, (place, offset) in enumerate([(50, 5), (50, 6), (50, 7), (50, 9), (70, 5)])
    ]
    matched = matched_ends(rows(spark, "end_transaction", ends), rows(spark, "half_message", halves))
    assert table_of(matched, "landing_order", "transaction_id", "half_queue_offset", "is_queue_offset_landed") == {
        0: ("five", 5, True),
        1: ("six", 6, True),
        2: (None, None, False),
        3: (None, None, True),
        4: ("alone", 9, True),
    }


def test_an_id_counts_where_another_half_claims_the_place(spark):
    halves = [{"commit_log_offset": 50, "queue_offset": 5, "transaction_id": "five"},
              {"commit_log_offset": 50, "queue_offset": 6, "transaction_id": "six"},
              {"commit_log_offset": 70, "queue_offset": 7, "transaction_id": "seven"},
              {"commit_log_offset": 80, "queue_offset": 8, "transaction_id": "eight"}]  # fmt: skip
    said = [(50, 5, "five"), (50, 6, "five"), (50, 6, None), (70, 7, "seven"), (70, 7, "other"), (80, 8, "other")]
    ends = [
        {"commit_log_offset": place, "tran_state_table_offset": offset, "transaction_id": named, "landing_order": turn}
        for turn, (place, offset, named) in enumerate(said)
    ]
    refused = local_frame(spark, [("b", 70), ("c", 80)], "broker_name string, commit_log_offset bigint")
    matched = matched_ends(
        rows(spark, "end_transaction", ends), rows(spark, "half_message", halves), quarantined_places=refused
    )
    judged = judged_ends(matched, no_decisions(spark), policies=policies(), now=NOW)
    wrong = "TRANSACTION_ID_WRONG"
    assert table_of(judged, "landing_order", "reason") == {0: None, 1: wrong, 2: None, 3: None, 4: wrong, 5: None}


def test_an_outcome_says_what_the_end_named_and_what_was_found(spark):
    half = {"commit_log_offset": 100, "queue_offset": 4, "transaction_id": "K", "real_queue_id": 3,
            "born_timestamp": at(-900), "check_immunity": "60"}  # fmt: skip
    named = {"commit_log_offset": 100, "tran_state_table_offset": 4, "transaction_id": "said", "msg_id": "m"}
    ends = [{**named, "landing_order": 1, "ts": at(-500)}, {**NOWHERE, "landing_order": 2, "producer_group": "PX"}]
    matched = matched_ends(rows(spark, "end_transaction", ends), rows(spark, "half_message", [half]))
    judged = judged_ends(matched, no_decisions(spark), policies=policies(), now=NOW)
    expected = rows(
        spark,
        "end_outcome",
        [{**named, "landing_order": 1, "ts": at(-500), "end_transaction_id": "said", "transaction_id": "K",
          "born_timestamp": at(-900), "half_queue_id": 0, "half_queue_offset": 4, "real_queue_id": 3,
          "is_effective": True, "pass_number": 9},
         {**NOWHERE, "landing_order": 2, "producer_group": "PX", "end_transaction_id": "T", "transaction_id": None,
          "born_timestamp": None,
          "real_topic": None, "real_queue_id": None, "outcome": "held", "code": None, "is_held": True,
          "pass_number": 9}],
    )  # fmt: skip
    found = outcome_rows(judged, now=NOW, pass_number=9).drop("topic", "content_hash", "occurrence")
    assert sorted(found.columns) == sorted(schema_of("end_outcome").names)
    assert_df_equality(found, expected, ignore_column_order=True, ignore_row_order=True, ignore_nullable=True,
                       ignore_metadata=True)  # fmt: skip


# What an end answering no check has until it is refused, at a timeout of 6 s (R15; upstream's own cases first).
IMMUNITIES = {
    "1": 6_000, "5": 6_000, "-1": 6_000, None: 6_000, "100.5": 6_000, "7": 7_000, "60": 60_000, "100": 100_000,
    "0": 6_000, "-5": 6_000, "+5": 6_000, "+7": 7_000, " 7": 6_000, "7 ": 6_000, "7\n": 6_000, "abc": 6_000, "": 6_000,
    "007": 7_000, "9223372036854775807": 2**62, "9223372036854775808": 6_000, "-9223372036854775808": 6_000,
}  # fmt: skip


def test_immunity_of_an_end_is_at_least_the_transaction_timeout(spark):
    frame = rows(spark, "half_message", [{"check_immunity": text} for text in IMMUNITIES])
    limited = frame.withColumn("limit", immunity_limit_ms(policies(timeout_ms=6_000)))
    assert table_of(limited, "check_immunity", "limit") == IMMUNITIES


def test_numbers_are_read_as_java_reads_them(spark):
    texts = {"7": 7, "+7": 7, "-7": -7, "-0": 0, "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63),
             "9223372036854775808": None, "7.0": None, "1e3": None, " 7": None, "7\n": None, "+": None, "": None,
             "0x7": None, "7L": None, "1_000": None, None: None}  # fmt: skip
    frame = local_frame(spark, [(text,) for text in texts], "text string")
    assert table_of(frame.withColumn("number", java_long(frame["text"])), "text", "number") == texts
