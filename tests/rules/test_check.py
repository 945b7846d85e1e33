"""Who is asked, who is given up, who waits, at every border (R44-R52, R61-R63)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import RESERVED_MS, at, policies, rows, schema_of, table_of
from chispa import assert_df_equality
from moment import NOW, NOW_MS
from pyspark.sql import functions as F

from txmq_lib.rules.check import check_limit_ms, check_requests, is_immune, pending_after, with_action
from txmq_lib.rules.end import immunity_limit_ms
from txmq_lib.rules.policy import Backoff, Limits, Policies

pytestmark = pytest.mark.spark

TIMEOUT, INTERVAL, RESERVED = 6_000, 60_000, 259_200_000
FOREVER = "9223372036854775807"
BROKERS = Policies(
    Limits("engine", TIMEOUT, INTERVAL, 15, RESERVED),
    {
        "max 0": Limits("engine", TIMEOUT, INTERVAL, 0, RESERVED),
        "max 1": Limits("engine", TIMEOUT, INTERVAL, 1, RESERVED),
        "audit": Limits("audit", TIMEOUT, INTERVAL, 15, RESERVED),
    },
)
ASK, WAIT, OVER, EXPIRED = ("ask", None), ("wait", None), ("give_up", "check_max"), ("give_up", "expired")


def half(age_ms, immunity=None, times=0, asked_ago_ms=None, broker="b"):
    """An undecided transaction of that age, asked so many times, the last time so long ago."""
    last = None if asked_ago_ms is None else at(-asked_ago_ms)
    return {"broker_name": broker, "born_timestamp": at(-age_ms), "check_immunity": immunity, "check_times": times,
            "last_check_timestamp": last}  # fmt: skip


EDGES = [  # why, half, what is done
    ("just born", half(0), WAIT),
    ("as old as the timeout (R48)", half(6_000), WAIT),
    ("a millisecond older", half(6_001), ASK),
    ("born a millisecond from now (R52 c)", half(-1), ASK),
    ("born from now, with immunity (R49)", half(-1, "60"), WAIT),
    ("as old as its immunity (R49)", half(60_000, "60"), WAIT),
    ("a millisecond older than its immunity", half(60_001, "60"), ASK),
    ("immunity below the timeout holds as written: no floor here", half(1_000, "1"), WAIT),
    ("a millisecond past an immunity below the timeout", half(1_001, "1"), ASK),
    ("immunity 0 at age 0", half(0, "0"), WAIT),
    ("immunity 0 at age 1", half(1, "0"), ASK),
    ("immunity -5: none at all", half(0, "-5"), ASK),
    ("immunity -5, born five seconds from now", half(-5_000, "-5"), WAIT),
    ("immunity -5, born a millisecond sooner", half(-4_999, "-5"), ASK),
    ("immunity -1 means the timeout", half(6_000, "-1"), WAIT),
    ("immunity -1, a millisecond past the timeout", half(6_001, "-1"), ASK),
    ("immunity of a word means the timeout", half(6_000, "abc"), WAIT),
    ("immunity of a word, past the timeout", half(6_001, "abc"), ASK),
    ("immunity for ever, a day old", half(86_400_000, FOREVER), WAIT),
    ("immunity of minus for ever is none", half(0, "-9223372036854775808"), ASK),
    ("asked a millisecond less than an interval ago", half(600_000, times=1, asked_ago_ms=59_999), WAIT),
    ("asked an interval ago", half(600_000, times=1, asked_ago_ms=60_000), ASK),
    ("asked after now, the clock went back", half(600_000, times=1, asked_ago_ms=-1), WAIT),
    ("fourteen times asked: once more", half(900_000, times=14, asked_ago_ms=60_000), ASK),
    ("fifteen times: the last answer keeps its interval (R61)", half(900_000, times=15, asked_ago_ms=59_999), WAIT),
    ("fifteen times and an interval", half(900_000, times=15, asked_ago_ms=60_000), OVER),
    ("more often than the limit now is", half(900_000, times=99, asked_ago_ms=60_000), OVER),
    ("as old as is reserved (R45)", half(RESERVED), ASK),
    ("a millisecond older than is reserved", half(RESERVED + 1), EXPIRED),
    ("expired within its immunity", half(RESERVED + 1, FOREVER), EXPIRED),
    ("expired within the interval", half(RESERVED + 1, times=3, asked_ago_ms=1), EXPIRED),
    ("expired and over the limit: expired is said", half(RESERVED + 1, times=15, asked_ago_ms=60_000), EXPIRED),
    ("max 0, as old as the timeout (R44)", half(6_000, broker="max 0"), WAIT),
    ("max 0, older: given up unasked", half(6_001, broker="max 0"), OVER),
    ("max 1, never asked", half(6_001, broker="max 1"), ASK),
    ("max 1, asked once, waiting for the answer", half(70_000, times=1, asked_ago_ms=59_999, broker="max 1"), WAIT),
    ("max 1, asked once and an interval", half(70_000, times=1, asked_ago_ms=60_000, broker="max 1"), OVER),
    ("audit: asked like any other", half(6_001, broker="audit"), ASK),
    ("audit: never given up", half(900_000, times=15, asked_ago_ms=60_000, broker="audit"), WAIT),
    ("audit: as old as is reserved", half(RESERVED, broker="audit"), ASK),
    ("audit: expired, listed and not asked", half(RESERVED + 1, broker="audit"), WAIT),
    ("held, and due", {**half(6_001), "is_held": True}, WAIT),
    ("held, and over the limit", {**half(900_000, times=99, asked_ago_ms=60_000), "is_held": True}, WAIT),
    ("held, and expired", {**half(RESERVED + 1), "is_held": True}, WAIT),
    ("not held", {**half(6_001), "is_held": False}, ASK),
]


def undecided(spark, edges):
    halves = [{"transaction_id": why, "is_held": None, **columns} for why, columns, *_ in edges]
    return rows(spark, "pending_half", halves).drop("next_check_timestamp")


def test_each_undecided_transaction_is_asked_given_up_or_waits(spark):
    acted = with_action(undecided(spark, EDGES), policies=BROKERS, now=NOW)
    assert table_of(acted, "transaction_id", "action", "reason") == {why: done for why, _, done in EDGES}


# Age a half must pass before it is asked about, at a timeout of 6 s (R49).
LIMITS = {
    "1": 1_000, "5": 5_000, "-1": 6_000, None: 6_000, "100.5": 6_000, "7": 7_000, "60": 60_000, "100": 100_000, "0": 0,
    "-5": -5_000, "+5": 5_000, " 5": 6_000, "abc": 6_000, "": 6_000, "05": 5_000, FOREVER: 2**62,
    "9223372036854775808": 6_000, "-9223372036854775808": -(2**62), "9223372036854775": 9_223_372_036_854_775_000,
}  # fmt: skip


def test_immunity_of_a_half_has_no_floor(spark):
    frame = rows(spark, "half_message", [{"check_immunity": text} for text in LIMITS])
    assert table_of(frame.withColumn("limit", check_limit_ms(BROKERS)), "check_immunity", "limit") == LIMITS


def test_below_the_timeout_a_half_is_asked_about_while_its_ends_are_still_taken(spark):
    halves = [{"check_immunity": text, "transaction_id": f"{text} {age}", "born_timestamp": at(-age)}
             for text in ("0", "1", "5", "6") for age in (0, 1, 1_000, 1_001, 5_000, 5_001, 6_000, 6_001)]  # fmt: skip
    judged = rows(spark, "half_message", halves).select(
        "transaction_id",
        (~is_immune(BROKERS, NOW)).alias("is_asked"),
        (F.unix_millis(F.lit(NOW)) - F.unix_millis("born_timestamp") <= immunity_limit_ms(BROKERS)).alias("is_taken"),
    )
    found = table_of(judged, "transaction_id", "is_asked", "is_taken")
    assert {name for name, (is_asked, is_taken) in found.items() if is_asked and is_taken} == {
        "0 1", "0 1000", "0 1001", "0 5000", "0 5001", "0 6000",
        "1 1001", "1 5000", "1 5001", "1 6000",
        "5 5001", "5 6000",
    }, "R15 against R49"  # fmt: skip
    assert {name for name, (_, is_taken) in found.items() if not is_taken} == {"0 6001", "1 6001", "5 6001", "6 6001"}


LATEST = 253_402_300_799_999 - NOW_MS
DUE = [  # why, half, check times, last asked, next due; in ms after now
    ("waiting for its timeout", half(1_000), 0, None, 5_001),
    ("asked for the first time", half(6_001), 1, 0, 60_000),
    ("asked again", half(600_000, times=7, asked_ago_ms=60_001), 8, 0, 60_000),
    ("between two checks", half(600_000, times=2, asked_ago_ms=20_000), 2, -20_000, 40_000),
    ("waiting for its immunity", half(1_000, "60"), 0, None, 59_001),
    ("immunity 0, just born", half(0, "0"), 0, None, 1),
    ("immunity for ever: due when it expires", half(1_000, FOREVER), 0, None, RESERVED - 999),
    ("asked for the last time: giving up is due", half(900_000, times=14, asked_ago_ms=60_000), 15, 0, 60_000),
    ("expiring before the next check", half(RESERVED - 9_999, times=1, asked_ago_ms=60_000), 2, 0, 10_000),
    ("audit: waiting", half(1_000, broker="audit"), 0, None, 5_001),
    ("audit: asked for the last time", half(900_000, times=14, asked_ago_ms=60_000, broker="audit"), 15, 0, None),
    ("audit: asked as often as may be", half(900_000, times=15, asked_ago_ms=1, broker="audit"), 15, -1, None),
    ("audit: expired", half(RESERVED + 1, times=1, asked_ago_ms=5, broker="audit"), 1, -5, None),
    ("audit: expires before it is due again", half(RESERVED, broker="audit"), 1, 0, None),
    ("audit: immune till it expires", half(1_000, FOREVER, broker="audit"), 0, None, None),
    ("max 1, asked", half(6_001, broker="max 1"), 1, 0, 60_000),
    ("max 0, waiting", half(1_000, broker="max 0"), 0, None, 5_001),
]


def test_pending_keeps_how_often_and_when_it_was_asked_and_when_it_is_due(spark):
    pending = pending_after(with_action(undecided(spark, DUE), policies=BROKERS, now=NOW), policies=BROKERS, now=NOW)
    assert sorted(pending.columns) == sorted(schema_of("pending_half").names)
    found = table_of(pending, "transaction_id", "check_times", "last_check_timestamp", "next_check_timestamp")
    assert found == {why: tuple(left) for why, _, *left in DUE}


BACKING_OFF = replace(BROKERS, backoffs={"slow": Backoff(2, 300_000), "odd": Backoff(1.5, 1_000)})
GROWING = [  # why, half, producer group, what is done, next due; in ms after now
    ("slow, asked once, an interval ago", half(900_000, times=1, asked_ago_ms=60_000), "slow", ASK, 120_000),
    ("slow, asked twice, nearly two intervals ago", half(900_000, times=2, asked_ago_ms=119_999), "slow", WAIT, 1),
    ("slow, asked twice, two intervals ago", half(900_000, times=2, asked_ago_ms=120_000), "slow", ASK, 240_000),
    ("slow, asked three times", half(900_000, times=3, asked_ago_ms=239_999), "slow", WAIT, 1),
    ("slow, at its longest", half(900_000, times=12, asked_ago_ms=299_999), "slow", WAIT, 1),
    ("slow, a longest ago", half(900_000, times=12, asked_ago_ms=300_000), "slow", ASK, 300_000),
    ("slow, the grace of the last check", half(900_000, times=15, asked_ago_ms=299_999), "slow", WAIT, 1),
    ("slow, over", half(900_000, times=15, asked_ago_ms=300_000), "slow", OVER, 0),
    ("slow, never asked", half(1_000), "slow", WAIT, 5_001),
    ("longest below the interval", half(900_000, times=9, asked_ago_ms=60_000), "odd", ASK, 60_000),
    ("another group", half(900_000, times=9, asked_ago_ms=60_000), "quick", ASK, 60_000),
    ("no group", half(900_000, times=9, asked_ago_ms=60_000), None, ASK, 60_000),
]


def test_a_group_with_a_backoff_is_asked_at_growing_intervals(spark):
    edges = [(why, {**columns, "producer_group": group}) for why, columns, group, *_ in GROWING]
    acted = with_action(undecided(spark, edges), policies=BACKING_OFF, now=NOW)
    assert table_of(acted, "transaction_id", "action", "reason") == {why: done for why, _, _, done, _ in GROWING}
    pending = pending_after(acted, policies=BACKING_OFF, now=NOW)
    found = table_of(pending, "transaction_id", "next_check_timestamp")
    assert found == {why: due for why, *_, due in GROWING}


def test_a_half_due_beyond_the_year_9999_stays_a_date(spark):
    far = policies(reserved_ms=2**52)
    pending = pending_after(
        with_action(undecided(spark, [("far", half(1_000, FOREVER))]), policies=far, now=NOW), policies=far, now=NOW
    )
    assert RESERVED_MS == RESERVED
    assert table_of(pending.select("transaction_id", F.unix_millis("next_check_timestamp").alias("due")),
                    "transaction_id", "due") == {"far": LATEST + NOW_MS}  # fmt: skip


def test_a_check_request_names_the_newest_copy_and_all_offsets(spark):
    newest = {"queue_offset": 45, "commit_log_offset": 9_000, "offset_msg_id": "0A00", "half_offsets": [40, 45],
              "real_topic": "TopicB", "real_queue_id": 3}  # fmt: skip
    halves = [
        ("asked", {**half(600_000, times=3, asked_ago_ms=60_000), **newest}),
        ("waits", {**half(0), **newest}),
        ("given up", {**half(RESERVED + 1), **newest}),
    ]
    requests = check_requests(with_action(undecided(spark, halves), policies=BROKERS, now=NOW), now=NOW, pass_number=6)
    expected = rows(
        spark,
        "check_request",
        [{"transaction_id": "asked", "born_timestamp": at(-600_000), "check_times": 4, "check_timestamp": NOW,
          "tran_state_table_offset": 45, "commit_log_offset": 9_000, "msg_id": "asked", "offset_msg_id": "0A00",
          "half_offsets": [40, 45], "real_topic": "TopicB", "real_queue_id": 3, "pass_number": 6}],
    )  # fmt: skip
    assert_df_equality(requests, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)
