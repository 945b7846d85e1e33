"""What an undecided verdict rests on: that no op of the transaction lies where nobody has read."""

from __future__ import annotations

import json

import pytest
from builders import CHECK_MAX, INTERVAL_MS, RESERVED_MS, TIMEOUT_MS, at, evidence, lines_of, policies, rows, table_of
from moment import NOW
from test_proof import HALVES, ended, log, queue, run

from txmq_lib.rules.evidence import transaction_figures
from txmq_lib.rules.verdict import expiring, judged

pytestmark = pytest.mark.spark

OP_QUEUE = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
# Its half lies at 100, its given-up row at 200.
HALF, GIVEN_UP = 100, 200
KEPT_OUT = "a copy of the half that another half kept out"
COMMITTED = "its committed message, which another record of its place kept out"


def ops(*runs, **columns):
    return {**queue(*runs, **columns), "topic": OP_QUEUE}


def halves(*runs, **columns):
    return {**queue(*runs, **columns), "topic": HALVES}


def live(read_to):
    return {"topic": "**", "queue_id": -1, "runs": [run(0, 0, None, None, read_to)]}


def bad(**row):
    return {"reason": "BODY_CRC", **row}


def kept_out(transaction_id, flags):
    raw = json.dumps({"sys_flag": flags})
    return bad(topic="TopicA", queue_id=0, reason="KEY_CONFLICT", transaction_id=transaction_id, raw=raw)


ENDED_OPS = {**ended((0, 9, 10, 90)), "topic": OP_QUEUE}
# Its checks are over one millisecond before NOW: after the timeout, and two rounds more than transactionCheckMax (R119).
BORN_TO_BE_FORGOTTEN = {
    name: at(-TIMEOUT_MS - (CHECK_MAX + 2) * INTERVAL_MS - 1) for name in ("born_timestamp", "store_timestamp")
}
READ = [  # why, frontier rows of its broker, rows of quarantine, whether an op of it would have been seen
    ("nothing is known of any source", [], [], False),
    ("ops never landed", [halves((0, 9, 10, 300))], [], False),
    ("ops read from the beginning past the given-up row", [ops((0, 9, 150, 201))], [], True),
    ("ops read to it and no further", [ops((0, 9, 150, 200))], [], False),
    ("ops from before the half", [ops((5, 9, 99, 201))], [], True),
    ("ops from behind the half, what lies before is missing", [ops((5, 9, 101, 201))], [], False),
    ("a hole before the half", [ops((0, 3, 10, 20), (5, 9, 90, 201))], [], True),
    ("a hole between", [ops((0, 3, 10, 120), (5, 9, 130, 201))], [], False),
    ("a hole behind the given-up row", [ops((0, 3, 10, 201), (5, 9, 300, 400))], [], False),
    ("a place misread far behind the given-up row", [ops((0, 4, 10, 9_000), (4, 9, 90, 150))], [], False),
    ("more were told than landed", [ops((0, 9, 10, 201), told_end=10)], [], False),
    ("ops of another queue", [{**ops((0, 9, 10, 201)), "queue_id": 1}], [], False),
    ("ops of the pair in RocksDB", [{**ops((0, 9, 10, 201)), "topic": "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}], [],
     False),
    ("copies of the half may lie in a hole", [ops((0, 9, 10, 201)), halves((0, 3, 10, 120), (5, 9, 130, 140))], [],
     False),
    ("a hole among older halves", [ops((0, 9, 10, 201)), halves((0, 3, 10, 20), (5, 9, 90, 140))], [], True),
    ("the log read from the half on", [log((100, 201))], [], True),
    ("a part of the log", [log((100, 201), topic="[Other]")], [], True),
    ("the log read to the given-up row and no further", [log((0, 200))], [], False),
    ("the log read from behind the half", [log((101, 300))], [], False),
    ("the log read, and more behind a hole", [log((0, 201), (210, 300))], [], False),
    ("the log read, and an op of the queue was not seen there", [log((0, 300)), ops((0, 3, 10, 120), (5, 9, 130, 140))],
     [], False),
    ("ops read live to their end behind it", [ops((0, 9, 10, 90, 200))], [], True),
    ("ops read live to their end before it", [ops((0, 9, 10, 90, 199))], [], False),
    ("all queues read live, and there was none", [live(200)], [], True),
    ("all queues read live before it", [live(199)], [], False),
    ("files to the end of the op queue", [ENDED_OPS, {**halves((0, 9, 10, 300)), "first_told_end": 9}], [], True),
    ("files to an end that was told twice", [{**ENDED_OPS, "first_told_end": 8}], [], False),
    ("files, and another queue was read at another time",
     [ENDED_OPS, {**halves((0, 9, 10, 300)), "first_told_end": 8}], [], False),
    ("an op in quarantine behind what landed", [log((0, 300)), ops((0, 9, 10, 120))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=250)], False),
    ("one that landed from elsewhere", [ops((0, 9, 10, 260))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=250)], True),
    ("one whose place nobody knows", [ops((0, 9, 10, 260))], [bad(topic=OP_QUEUE, queue_id=0)], False),
    ("one before the half", [ops((0, 9, 10, 260))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=99, reason="OP_TOKEN")], True),
    ("one that names what nobody can read", [ops((0, 9, 10, 260))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=101, reason="OP_TOKEN")], False),
    ("one that another kept out", [ops((0, 9, 10, 260))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=101, reason="KEY_CONFLICT")], False),
    ("one that closes nothing", [ops((0, 9, 10, 260))],
     [bad(topic=OP_QUEUE, queue_id=0, commit_log_offset=101, reason="OP_TAG")], True),
    (KEPT_OUT, [ops((0, 9, 10, 260))],
     [bad(topic=HALVES, queue_id=0, commit_log_offset=150, reason="KEY_CONFLICT", transaction_id=KEPT_OUT)], False),
    ("a copy of another half", [ops((0, 9, 10, 260))],
     [bad(topic=HALVES, queue_id=0, commit_log_offset=150, reason="KEY_CONFLICT", transaction_id="U")], True),
    ("a record of a queue that nobody knows, behind", [log((0, 300)), ops((0, 9, 10, 120))],
     [bad(commit_log_offset=250)], False),
    ("a record of a queue that nobody knows, among ops", [ops((0, 9, 10, 260))], [bad(commit_log_offset=250)], True),
    ("a message in quarantine", [ops((0, 9, 10, 201))], [bad(topic="TopicA", queue_id=0, commit_log_offset=150)], True),
    (COMMITTED, [ops((0, 9, 10, 260))], [kept_out(COMMITTED, 8)], False),
    ("one of another transaction", [ops((0, 9, 10, 260))], [kept_out("U", 8)], True),
    ("one that nobody committed", [ops((0, 9, 10, 260))], [kept_out("one that nobody committed", 0)], True),
]  # fmt: skip


def transactions(spark, **born):
    own = [{"broker_name": why, "transaction_id": why, **born} for why, *_ in READ]
    return evidence(
        spark,
        halves=[{**one, "commit_log_offset": HALF} for one in own],
        given_up=[{**one, "commit_log_offset": GIVEN_UP} for one in own],
    )


def said(spark, found, role="audit"):
    frontier = [{"broker_name": why, **row} for why, of_broker, *_ in READ for row in of_broker]
    quarantine = [{"broker_name": why, "fingerprint": why, **row} for why, _, of_broker, _ in READ for row in of_broker]
    tables = [rows(spark, "landing_frontier", frontier), rows(spark, "quarantine", quarantine)]
    verdicts = judged(transaction_figures(found), *tables, policies=policies(role), now=NOW, pass_number=1)
    return table_of(verdicts, "transaction_id", "verdict", "reason", "is_settled")


def test_nobody_decided_it_is_said_only_where_an_op_would_have_been_seen(spark):
    assert said(spark, transactions(spark)) == {
        why: ("DISCARDED", "given_up" if is_read else "op_unread", False) for why, *_, is_read in READ
    }
    # Where txmq decides it is so but for a broker's op that met what txmq wrote, or cannot be read.
    unread = {"one that names what nobody can read", "one that another kept out", KEPT_OUT, COMMITTED}
    assert said(spark, transactions(spark), role="engine") == {
        why: ("DISCARDED", "op_unread", False) if why in unread else ("DISCARDED", "given_up", True) for why, *_ in READ
    }


def test_where_only_its_given_up_row_landed_nobody_knows_which_op_names_it(spark):
    read = {"live": [live(300)], "log": [log((0, 300))]}
    given_up = [{"broker_name": name, "transaction_id": name, "commit_log_offset": GIVEN_UP} for name in read]
    frontier = [{"broker_name": name, **row} for name, found in read.items() for row in found]
    tables = [rows(spark, "landing_frontier", frontier), rows(spark, "quarantine", [])]
    figures = transaction_figures(evidence(spark, given_up=given_up))
    verdicts = judged(figures, *tables, policies=policies("audit"), now=NOW, pass_number=1)
    assert table_of(verdicts, "transaction_id", "verdict", "reason") == dict.fromkeys(read, ("DISCARDED", "op_unread"))


LATER, EARLIER = {"highest_store_timestamp": at(0)}, {"highest_store_timestamp": at(-2)}
OPS = ops((0, 9, 10, 300))
UNTIL = {  # what landed of a broker until LATER; whether ops of after what makes it expire are among it
    "ops": ([{**OPS, **LATER}], True),
    "ops, and others later": ([{**OPS, **EARLIER}, {**queue((0, 9, 10, 400)), **LATER}], False),
    "ops, and all queues to their ends later": ([{**OPS, **EARLIER}, {**live(400), **LATER}], True),
    "ops, and one topic to its end later": ([{**OPS, **EARLIER}, {**live(400), "topic": "TopicA", **LATER}], False),
    "the log": ([{**log((0, 400)), **LATER}], True),
    "ops, and the log from behind the half": ([{**OPS, **EARLIER}, {**log((HALF + 1, 400)), **LATER}], False),
    "files of one reading to the end of ops": ([{**ENDED_OPS, **EARLIER}, {**ended((0, 9, 10, 400)), **LATER}], True),
    "files of two readings": (
        [{**ENDED_OPS, **EARLIER, "runs": OPS["runs"]}, {**ended((0, 9, 10, 400)), **LATER, "first_told_end": 5}],
        False,
    ),
    "no ops": ([{**queue((0, 9, 10, 400)), **LATER}], None),
}


def test_what_a_broker_forgot_is_said_only_where_ops_until_then_would_have_been_seen(spark):
    halves_of = []
    for broker in UNTIL:
        half = {"broker_name": broker, "commit_log_offset": HALF}
        halves_of += [
            {**half, "transaction_id": f"{broker}, pending"},
            {**half, "transaction_id": f"{broker}, expired", "born_timestamp": at(-RESERVED_MS - 1)},
            {**half, "transaction_id": f"{broker}, forgotten", "queue_id": -2, **BORN_TO_BE_FORGOTTEN},
        ]
    frontier = [{"broker_name": broker, **row} for broker, (landed, _) in UNTIL.items() for row in landed]
    rocksdb = [{**row, "topic": "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"} for row in frontier if row["topic"] == OP_QUEUE]
    figures = transaction_figures(evidence(spark, halves=halves_of))
    verdicts = judged(figures, rows(spark, "landing_frontier", frontier + rocksdb), rows(spark, "quarantine"),
                      policies=policies("audit"), now=NOW, pass_number=1)  # fmt: skip
    expected = {}
    for broker, (_, until_then) in UNTIL.items():
        expected[f"{broker}, pending"] = ("PENDING", "op_unread" if until_then is None else "undecided")
        for name, verdict, reason in (
            ("expired", "EXPIRED_UNSEEN", "reserved_time"),
            ("forgotten", "DISCARDED_UNSEEN", "checks_over"),
        ):
            expected[f"{broker}, {name}"] = (verdict, reason if until_then else "op_unread")
    assert table_of(verdicts, "transaction_id", "verdict", "reason") == expected


def test_what_was_given_up_without_a_half_may_be_named_by_any_op(spark):
    found = evidence(spark, given_up=[{"commit_log_offset": GIVEN_UP}])
    frontier = rows(spark, "landing_frontier", [ops((0, 9, 10, 300)), halves((0, 9, 10, 300))])
    verdicts = judged(transaction_figures(found), frontier, rows(spark, "quarantine"), policies=policies("audit"),
                      now=NOW, pass_number=1)  # fmt: skip
    assert table_of(verdicts, "transaction_id", "verdict", "reason") == {"T": ("DISCARDED", "op_unread")}


TORN = {  # frontier rows of a broker; whether more of it may take from an undecided verdict what it rests on
    "ops whole": ([ops((3, 9, 10, 300)), halves((5, 9, 10, 300))], False),
    "ops whole, and what a live broker told of them": ([ops((3, 9, 10, 300), (9, 9, None, None, 310))], False),
    "ops with a hole": ([ops((0, 3, 10, 20), (5, 9, 90, 201))], True),
    "ops cut short": ([ops((0, 3, 10, 20), told_end=4)], True),
    "ops from the middle of a queue that was empty as it was read": (
        [ops((0, 0, None, None, 50), (5, 9, 90, 201))],
        True,
    ),
    "halves with a hole": ([ops((3, 9, 10, 300)), halves((0, 3, 10, 20), (5, 9, 90, 201))], True),
    "a log with a hole": ([ops((3, 9, 10, 300)), log((0, 10), (20, 30))], True),
    "files told where it ends": ([ops((3, 9, 10, 300), first_told_end=9)], True),
    "no ops": ([halves((5, 9, 10, 300))], True),
}


def test_undecided_ones_are_judged_again_where_ops_may_be_missing(spark):
    verdicts = {"PENDING": "undecided", "DISCARDED": "given_up", "EXPIRED_UNSEEN": "reserved_time"}
    known = [
        {"broker_name": why, "transaction_id": f"{why}, {verdict}", "verdict": verdict, "reason": reason,
         "born_timestamp": NOW}
        for why in TORN for verdict, reason in verdicts.items()
    ]  # fmt: skip
    lacks = [{"broker_name": "ops whole", "transaction_id": "lacks ops", "verdict": "PENDING", "reason": "op_unread"}]
    frontier = [{"broker_name": why, **row} for why, (found, _) in TORN.items() for row in found]
    found = expiring(rows(spark, "verdict", known + lacks), rows(spark, "landing_frontier", frontier),
                     policies=policies("audit"), now=NOW)  # fmt: skip
    expected = [(f"{why}, {verdict}",) for why, (_, is_torn) in TORN.items() if is_torn for verdict in verdicts]
    assert lines_of(found, "transaction_id") == sorted([*expected, ("lacks ops",)])
