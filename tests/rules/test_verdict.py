"""The table of docs/pages/verdicts.md, row by row, from what landed or was written for a transaction."""

from __future__ import annotations

from itertools import count

import builders
import pytest
from builders import at, policies, rows, schema_of, table_of
from chispa import assert_df_equality
from moment import NOW

from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import Evidence, diverted_halves, transaction_figures
from txmq_lib.rules.verdict import changed, judged

pytestmark = pytest.mark.spark

STORIES = [  # why; places of its halves, of halves named by ops, of halves become visible, of given-up rows; verdict
    ("nothing but a half", [1], [], [], [], "PENDING"),
    ("a half and two check copies", [1, 2, 3], [], [], [], "PENDING"),
    ("visible, op", [1], [1], [1], [], "COMMITTED"),
    ("committed by the original, op of the copy", [1, 2], [2], [1], [], "COMMITTED"),
    ("committed by the copy, op of the original", [1, 2], [1], [2], [], "COMMITTED"),
    ("visible, no op: lost in a crash (R76)", [1, 2], [], [2], [], "COMMITTED_OP_LOST"),
    ("visible twice", [1], [1, 1], [1, 1], [], "DUPLICATED"),
    ("visible from original and copy", [1, 2], [1, 2], [1, 2], [], "DUPLICATED"),
    ("visible twice, no op at all", [1], [], [1, 1], [], "DUPLICATED"),
    ("visible thrice, given up", [1, 2], [1], [1, 1, 2], [3], "DUPLICATED"),
    ("visible from a half and from its given-up row (R19)", [1], [1], [1, 2], [2], "DUPLICATED"),
    ("visible, two ops: a commit and a rollback", [1], [1, 1], [1], [], "CONFLICT"),
    ("visible, ops on two copies", [1, 2], [1, 2], [1], [], "CONFLICT"),
    ("visible, three ops, given up", [1, 2], [1, 2, 2], [2], [3], "CONFLICT"),
    ("visible and given up (R61)", [1, 2], [2], [2], [3], "COMMITTED_AND_DISCARDED"),
    ("visible and given up, no op", [1, 2], [], [1], [3], "COMMITTED_AND_DISCARDED"),
    ("given up, resumed, visible", [1, 3], [3], [3], [2], "COMMITTED_AND_DISCARDED"),
    ("visible from its given-up row alone", [1], [], [2], [2], "COMMITTED_AND_DISCARDED"),
    ("op, nothing visible", [1], [1], [], [], "ROLLED_BACK"),
    ("two ops, nothing visible", [1, 2], [1, 2], [], [], "ROLLED_BACK"),
    ("op, and given up", [1, 2], [2], [], [3], "ROLLED_BACK"),
    ("given up", [1, 2], [], [], [3], "DISCARDED"),
    ("given up, no half landed", [], [], [], [3], "DISCARDED"),
    ("given up and resumed (R73)", [1, 3], [], [], [2], "PENDING"),
    ("given up, resumed, given up again", [1, 3], [], [], [2, 4], "DISCARDED"),
    ("given up, resumed, rolled back", [1, 3], [3], [], [2], "ROLLED_BACK"),
]


def evidence(
    spark, stories=STORIES, *, messages=(), outcomes=(), checks=(), diverted=(), resumed=(), origin="landed", **columns
):
    """All rows of the stories; each story has a hundred places of its own, a place being queue and physical offset."""
    halves, ops, visible, given_up, records = [], [], list(messages), [], count()
    for number, (why, *places) in enumerate(stories):
        own = {"transaction_id": why, **columns}
        of = [[100 * number + place for place in found] for found in places[:4]]
        halves += [{**own, "queue_offset": at_, "commit_log_offset": at_} for at_ in of[0]]
        broker = {name: value for name, value in columns.items() if name == "broker_name"}
        ops += [{**broker, "half_queue_offset": at_, "commit_log_offset": FAR // 2 + next(records), "origin": origin}
                for at_ in of[1]]  # fmt: skip
        visible += [{**own, "prepared_transaction_offset": at_, "commit_log_offset": -next(records)} for at_ in of[2]]
        given_up += [{**own, "commit_log_offset": at_, "queue_offset": at_} for at_ in of[3]]
    landed = rows(spark, "message", visible)
    return Evidence(
        halves=rows(spark, "half_message", halves),
        ops=rows(spark, "op_message", ops),
        visible=landed,
        given_up=rows(spark, "trans_check_max_time", given_up),
        diverted=diverted_halves(rows(spark, "message", diverted)),
        checks=rows(spark, "check_request", checks),
        outcomes=rows(spark, "end_outcome", outcomes),
        resumed=resumes(rows(spark, "manual_decision", resumed)),
        orphans=rows(spark, "message"),
    )


FAR = 10**9
READ = {"first_offset": 0, "end_offset": FAR, "first_commit_log_offset": 0, "last_commit_log_offset": FAR,
        "read_to": None}  # fmt: skip
# The real queue and the op queue of all stories, read from their beginning past everything.
ALL_READ = ({"runs": [READ]}, {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "runs": [READ]})


def verdicts(spark, found, *, role="audit", frontier=ALL_READ, **roles):
    return judged(
        transaction_figures(found),
        rows(spark, "landing_frontier", frontier),
        rows(spark, "quarantine"),
        policies=policies(role, **roles),
        now=NOW,
        pass_number=1,
    )


def test_every_row_of_the_table_in_the_audit_role(spark):
    # Retried and delayed copies of committed messages, and what others put there, make nothing visible: E2.
    noise = [
        {"transaction_id": STORIES[0][0], "topic": "%RETRY%CG", "prepared_transaction_offset": 1},
        {"transaction_id": STORIES[2][0], "topic": "%RETRY%CG", "prepared_transaction_offset": 201},
        {"transaction_id": STORIES[2][0], "topic": "SCHEDULE_TOPIC_XXXX", "prepared_transaction_offset": 0},
        {"transaction_id": "of nobody", "prepared_transaction_offset": 1},
    ]
    judged_stories = verdicts(spark, evidence(spark, messages=noise))
    found = table_of(
        judged_stories, "transaction_id", "verdict", "half_count", "op_count", "visible_count", "given_up_count",
        "is_settled",
    )  # fmt: skip
    assert found == {
        why: (
            verdict,
            *[len(places) for places in counted],
            verdict not in ("PENDING", "DISCARDED", "COMMITTED_OP_LOST"),
        )
        for why, *counted, verdict in STORIES
    }


def test_what_lies_at_one_place_of_the_log_is_one_record(spark):
    """A queue or an offset misread in one copy of a log, and read well in another: each has its row."""
    half, message, op = ({"commit_log_offset": place} for place in (100, 180, 190))
    message |= {"prepared_transaction_offset": 100}
    once = {"halves": [half], "visible": [message], "ops": [op]}
    twice = {
        "message of another queue": {"visible": [message, {**message, "queue_id": 5}]},
        "message of another offset": {"visible": [message, {**message, "queue_offset": 4711}]},
        "message of another topic": {"visible": [message, {**message, "topic": "TopicX"}]},
        "op of another offset": {"ops": [op, {**op, "queue_offset": 4711}]},
        "half of another offset": {"halves": [half, {**half, "queue_offset": 4711}]},
    }
    two = {
        "two messages": ({"visible": [message, {**message, "commit_log_offset": 181}]}, "DUPLICATED"),
        "two of txmq": ({"visible": [{**message, "commit_log_offset": None}] * 2}, "DUPLICATED"),
        "two ops": ({"ops": [op, {**op, "commit_log_offset": 191}]}, "CONFLICT"),
        "an op that names it twice": ({"ops": [op, {**op, "position": 1}]}, "CONFLICT"),
        "two ops of txmq": ({"ops": [{**op, "commit_log_offset": None, "queue_offset": at_} for at_ in (7, 8)]},
                            "CONFLICT"),
    }  # fmt: skip
    expected = {**dict.fromkeys(twice, "COMMITTED"), **{why: verdict for why, (_, verdict) in two.items()}}
    # Each story is of a broker of its own.
    landed = {
        kind: [
            {**each, "broker_name": why}
            for why, more in {**twice, **{why: more for why, (more, _) in two.items()}}.items()
            for each in {**once, **more}[kind]
        ]
        for kind in once
    }
    frontier = [{**each, "broker_name": why} for why in expected for each in ALL_READ]
    found = verdicts(spark, builders.evidence(spark, **landed), frontier=frontier)
    assert table_of(found, "broker_name", "verdict") == expected


def test_a_given_up_transaction_that_txmq_resumed_is_pending_until_it_is_given_up_again(spark):
    stories = [  # place of the half, offsets of given-up rows, up to which they were resumed
        ("given up", [1], [], [], [2], None),
        ("resumed", [1], [], [], [2], 2),
        ("resumed, given up again", [1], [], [], [2, 5], 2),
        ("resumed twice", [1], [], [], [2, 5], 5),
        ("resumed, committed", [1], [1], [1], [2], 2),
    ]
    undone = [
        {"transaction_id": why, "given_up_queue_offset": 100 * number + upto}
        for number, (why, *_, upto) in enumerate(stories)
        if upto is not None
    ]
    settled = [{"transaction_id": "given up", "action": "commit", "given_up_queue_offset": 2}]
    found = verdicts(spark, evidence(spark, stories, resumed=[*undone, *settled]), role="engine")
    assert table_of(found, "transaction_id", "verdict") == {
        "given up": "DISCARDED",
        "resumed": "PENDING",
        "resumed, given up again": "DISCARDED",
        "resumed twice": "PENDING",
        "resumed, committed": "COMMITTED_AND_DISCARDED",
    }


def test_the_first_copy_that_has_a_real_topic_tells_where_all_become_visible(spark):
    places = {"first": 100, "second": 200, "third": 300}
    topics = {"first": None, "second": "TopicA", "third": "TopicB"}
    halves = [
        {"queue_offset": at_, "commit_log_offset": at_, "real_topic": topics[name]} for name, at_ in places.items()
    ]
    for topic, at_, visible in (
        ("TopicA", 100, 1), ("TopicA", 200, 1), ("TopicA", 300, 1), ("TopicB", 300, 0), ("TopicB", 100, 0),
    ):  # fmt: skip
        message = {"topic": topic, "prepared_transaction_offset": at_}
        figures = transaction_figures(builders.evidence(spark, halves=halves, visible=[message]))
        assert table_of(figures, "transaction_id", "visible_count", "real_topic") == {"T": (visible, "TopicA")}


def test_half_offset_0_is_a_place_like_any_other(spark):
    first = [("first of all", [0], [], [], [], None), ("second", [1], [], [], [], None)]
    retries = [{"transaction_id": "first of all", "topic": topic, "prepared_transaction_offset": 0}
               for topic in ("%RETRY%CG", "SCHEDULE_TOPIC_XXXX", "%DLQ%CG")]  # fmt: skip
    foreign = [{"transaction_id": "second", "prepared_transaction_offset": 0}]
    own = [{"transaction_id": "first of all", "prepared_transaction_offset": 0}]
    before = verdicts(spark, evidence(spark, first, messages=retries + foreign))
    assert table_of(before, "transaction_id", "verdict") == {"first of all": "PENDING", "second": "PENDING"}
    after = verdicts(spark, evidence(spark, first, messages=retries + foreign + own))
    assert table_of(after, "transaction_id", "verdict", "visible_count") == {
        "first of all": ("COMMITTED_OP_LOST", 1),
        "second": ("PENDING", 0),
    }


ENDS = [  # why, story's places, contradicting ends, verdict in the engine role
    ("committed", [1], [1], [1], [], 0, "COMMITTED"),
    ("committed, a rollback came after", [1], [1], [1], [], 1, "CONFLICT"),
    ("rolled back", [1], [1], [], [], 0, "ROLLED_BACK"),
    ("rolled back, two commits came after", [1], [1], [], [], 2, "CONFLICT"),
    ("given up", [1], [], [], [2], 0, "DISCARDED"),
    ("given up, committed after (R72)", [1], [1], [1], [2], 0, "COMMITTED_AND_DISCARDED"),
    ("given up and rolled back, a commit came after", [1], [1], [], [2], 1, "CONFLICT"),
    ("undecided", [1], [], [], [], 0, "PENDING"),
]


def test_the_engine_role_follows_what_txmq_decided(spark):
    outcomes = [{"transaction_id": why, "outcome": "contradicting", "landing_order": turn}
                for why, *_, times, _ in ENDS for turn in range(times)]  # fmt: skip
    outcomes += [{"transaction_id": "undecided", "outcome": outcome} for outcome in ("refused", "accepted", "repeated")]
    own, found = [evidence(spark, [end[:5] for end in ENDS], outcomes=outcomes, origin=of) for of in ("txmq", "landed")]
    # Nothing was read of the real topic: no matter, the engine wrote the messages itself.
    engine = table_of(verdicts(spark, own, role="engine", frontier=()), "transaction_id", "verdict",
                      "contradicting_count", "reason")  # fmt: skip
    assert {why: row[:2] for why, row in engine.items()} == {why: (verdict, times) for why, *_, times, verdict in ENDS}
    # One op names each of them: what says that there was another end is the end itself.
    assert {row[2] for row in engine.values() if row[0] == "CONFLICT"} == {"contradicting_ends"}
    audit = table_of(verdicts(spark, found), "transaction_id", "verdict")
    assert audit["committed, a rollback came after"] == "COMMITTED", "in the audit role the broker's rows tell"


def test_a_half_diverted_by_a_delay_is_found_where_it_lies(spark):
    half = {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}
    messages = [
        {"transaction_id": "delayed", "topic": "SCHEDULE_TOPIC_XXXX", "properties": half},
        {"transaction_id": "timed", "topic": "rmq_sys_wheel_timer", "properties": half, "producer_group": None},
        {"transaction_id": "timed, then delivered", "topic": "rmq_sys_wheel_timer", "properties": half},
        {"transaction_id": "an ordinary delayed one", "topic": "SCHEDULE_TOPIC_XXXX",
         "properties": {"REAL_TOPIC": "TopicA"}},
        {"transaction_id": "no real topic", "topic": "SCHEDULE_TOPIC_XXXX"},
        {"transaction_id": "not diverted", "topic": "TopicA", "properties": half},
        {"transaction_id": None, "topic": "SCHEDULE_TOPIC_XXXX", "properties": half},
    ]  # fmt: skip
    delivered = [("timed, then delivered", [1], [], [], [], None)]
    found = verdicts(spark, evidence(spark, delivered, diverted=messages))
    assert table_of(found, "transaction_id", "verdict", "half_count") == {
        "delayed": ("DIVERTED", 0),
        "timed": ("DIVERTED", 0),
        "timed, then delivered": ("PENDING", 1),
    }


def test_a_verdict_row_holds_the_figures_it_follows_from(spark):
    half = {"queue_offset": 1, "commit_log_offset": 10, "born_timestamp": at(-900), "store_timestamp": at(-800),
            "real_topic": None, "real_queue_id": None}  # fmt: skip
    copy = {**half, "queue_offset": 2, "commit_log_offset": 20, "store_timestamp": at(-500), "broker_check_times": 1,
            "real_topic": "TopicB", "real_queue_id": 3}  # fmt: skip
    own = {"born_timestamp": at(-900)}
    message = {**own, "topic": "TopicB", "prepared_transaction_offset": 20, "store_timestamp": at(-100)}
    found = builders.evidence(
        spark,
        halves=[copy, half],
        ops=[{"half_queue_offset": 2, "store_timestamp": at(-50)}],
        visible=[message],
        given_up=[{**own, "commit_log_offset": 30, "store_timestamp": at(-300), "broker_check_times": 3,
                   "real_topic": "TopicB"}],
        checks=[{**own, "check_times": 4}, {**own, "check_times": 5}],
        outcomes=[{**own, "outcome": "contradicting"}],
    )  # fmt: skip
    expected = rows(
        spark,
        "verdict",
        [{"born_timestamp": at(-900), "real_topic": "TopicB", "real_queue_id": 3,
          "verdict": "COMMITTED_AND_DISCARDED", "reason": "given_up", "visible_count": 1, "op_count": 1, "half_count": 2,
          "given_up_count": 1, "contradicting_count": 1, "check_times": 5, "broker_check_times": 3,
          "first_timestamp": at(-800), "last_timestamp": at(-50), "is_settled": True}],
    )  # fmt: skip
    row = verdicts(spark, found)
    assert sorted(row.columns) == sorted(schema_of("verdict").names)
    assert_df_equality(row, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


def test_only_verdicts_that_changed_are_written(spark):
    known = {"verdict": "PENDING", "half_count": 1, "first_timestamp": at(0), "last_timestamp": at(0)}
    changes = {
        "nothing": {},
        "judged by a later pass": {"pass_number": 2},
        "another verdict": {"verdict": "COMMITTED"},
        "one more copy": {"half_count": 2},
        "asked once more": {"check_times": 1},
        "seen later": {"last_timestamp": at(1)},
        "its topic became known": {"real_topic": "TopicB"},
        "settled": {"is_settled": True},
    }
    before = [{**known, "transaction_id": why, "producer_group": None} for why in changes]
    now = [{**known, "transaction_id": why, "producer_group": None, **change} for why, change in changes.items()]
    now += [{**known, "transaction_id": "new"}, {**known, "transaction_id": "nothing", "born_timestamp": at(1)}]
    found = changed(rows(spark, "verdict", now), rows(spark, "verdict", before))
    names = {row.transaction_id for row in found.select("transaction_id").collect()}
    assert names == {*changes, "new"} - {"judged by a later pass"}
    assert found.where("transaction_id = 'nothing'").count() == 1, "born at another time, it is another transaction"
