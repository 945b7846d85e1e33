"""What proves that a resolved transaction was rolled back, and what is missing where nothing does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import evidence, policies, rows, table_of
from moment import NOW

from txmq_lib.rules import bad_places
from txmq_lib.rules.evidence import transaction_figures
from txmq_lib.rules.orphans import committed_by_brokers, without_half
from txmq_lib.rules.verdict import judged

pytestmark = pytest.mark.spark

# Its half lies at 100, a copy at 150, the op that names it at 200.
LOW, COPY, OP = 100, 150, 200
REAL = {"topic": "TopicA", "queue_id": 0}


def run(first, end, first_place, last_place, read_to=None):
    names = ("first_offset", "end_offset", "first_commit_log_offset", "last_commit_log_offset", "read_to")
    return dict(zip(names, (first, end, first_place, last_place, read_to), strict=True))


def queue(*runs, **more):
    return {
        **REAL,
        "runs": [run(*each) for each in runs],
        "told_end": max((each[1] for each in runs), default=0),
        **more,
    }


def anew(behind, before):
    """Between these places a queue began anew."""
    return {"behind": behind, "before": before}


def ended(*runs, **more):
    """A queue that files show to its end, told by each of its rows."""
    end = runs[-1][1]
    return {**queue(*runs), "file_end": end, "first_told_end": end, **more}


def log(*stretches, topic="*", **more):
    return {"topic": topic, "queue_id": -1, "runs": [run(*each, None, None) for each in stretches], **more}


def live(read_to, topic="**"):
    return {"topic": topic, "queue_id": -1, "runs": [run(0, 0, None, None, read_to)]}


OTHER, GIVEN_UP, HALVES = {"topic": "TopicB"}, "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"
OPS = {**ended((0, 7, 60, OP)), "topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
BEHIND = [{**ended((0, 5, 10, 201)), **OTHER}, OPS]
PROVED = [  # why, frontier rows of its broker, by what it is proved or what is missing
    # 1. a run of the queue from before the half to behind the op
    ("read past the op, all of it behind the half", [queue((0, 9, 150, 201))], "from_beginning"),
    ("read from its beginning past the op", [queue((0, 9, 99, 201))], "read_past_op"),
    ("read to the op and no further", [queue((0, 9, 99, 200))], "unread"),
    ("read from before the half past the op", [queue((5, 9, 99, 201))], "read_past_op"),
    ("read from behind the half, and what lies before is missing", [queue((5, 9, 101, 201))], "gap"),
    ("a hole before the half", [queue((0, 3, 10, 20), (5, 9, 90, 201))], "read_past_op"),
    ("a hole behind the op", [queue((0, 3, 10, 201), (5, 9, 300, 400))], "read_past_op"),
    ("a hole between", [queue((0, 3, 10, 120), (5, 9, 130, 400))], "gap"),
    ("a hole from before the half to behind the op", [queue((0, 3, 10, 99), (5, 9, 201, 400))], "gap"),
    # Places ascend with the offsets: where two runs contradict each other, one was misread, and nobody knows which.
    ("a place misread far behind the op", [queue((0, 4, 10, 9_000), (5, 9, 130, 400))], "unread"),
    ("a place misread far behind the op, no hole there", [queue((0, 4, 10, 9_000), (4, 6, 130, 140), (7, 9, 150, 160))],
     "gap"),
    ("a place misread as one before the half", [queue((0, 3, 10, 140), (5, 9, 90, 400))], "unread"),
    ("a place misread, and a run apart from it", [queue((0, 2, 1, 60), (2, 4, 9, 20), (5, 9, 90, 400))], "read_past_op"),
    ("a place misread, and the queue read live to its end", [queue((0, 4, 10, 9_000), (4, 9, 130, 150, 200))], "unread"),
    ("retention took what is missing", [queue((0, 3, 10, 120), (5, 9, 130, 400), lowest_kept_offset=5)], "lost"),
    ("retention took what lies before the first", [queue((5, 9, 130, 400), lowest_kept_offset=5)], "lost"),
    ("retention took what lay behind what landed", [queue((0, 3, 10, 120), told_end=9, lowest_kept_offset=9)], "lost"),
    ("retention took other messages", [queue((2, 4, 10, 20), (5, 9, 130, 150), lowest_kept_offset=2)], "gap"),
    ("the first record that came behind an end", [queue((3, 3, 90, 90), (3, 9, 90, 400))], "read_past_op"),
    # 2. the log read from before the half to behind the op
    ("the log read over both", [log((100, 201))], "log_read"),
    ("the log read to the op and no further", [log((0, 200))], "unread"),
    ("the log read from behind the half", [log((101, 300))], "unread"),
    ("a bad record between", [log((0, 150), (151, 300))], "unread"),
    ("bad records before and behind", [log((0, 99), (100, 201), (202, 300))], "log_read"),
    ("a topic taken", [log((0, 300), topic="[Other, Topic*]")], "log_read"),
    ("a topic taken by one letter", [log((0, 300), topic="[Topic?]")], "log_read"),
    ("a topic left out", [log((0, 300), topic="[Other, Topic]")], "left_out"),
    ("a dot is a dot", [log((0, 300), topic="[Topic.]")], "left_out"),
    ("another topic of the log landed", [log((0, 300), topic="[TopicB]"), {**queue((0, 9, 1, 999)), **OTHER}],
     "left_out"),
    ("the log read, its queue without a hole", [log((0, 300)), queue((0, 9, 10, 120))], "log_read"),
    ("the log read, and a message of the queue was not seen there",
     [log((0, 300)), queue((0, 3, 10, 120), (5, 9, 130, 190))], "gap"),
    ("the log read, and the consume queue tells of a message that was not seen",
     [log((0, 300)), queue((0, 3, 10, 120), (4, 4, 300, 300))], "gap"),
    ("the log read from its beginning, and the first message was not seen", [log((0, 300)), queue((1, 3, 120, 130))],
     "gap"),
    ("the log read from later on: what lies before was not there", [log((50, 300)), queue((1, 3, 120, 130))],
     "log_read"),
    ("the log read, and a hole before the half", [log((0, 300)), queue((0, 3, 10, 20), (5, 9, 90, 190))], "log_read"),
    ("the log read, and a hole behind the op", [log((100, 300)), queue((2, 4, 110, 205), (5, 9, 250, 280))], "log_read"),
    ("the log read, and a hole of which one side is not in it", [log((90, 300)), queue((0, 3, 10, 20), (5, 9, 130, 190))],
     "log_read"),
    ("a file of the log was lost", [log((0, 120), (180, 300), lowest_kept_offset=180)], "lost"),
    # 3. a live broker told where the queue ends
    ("read live to its end past the op", [queue((0, 9, 10, 120, 200))], "live_read"),
    ("read live to its end before the op", [queue((0, 9, 10, 120, 199))], "unread"),
    ("read live, a hole before", [queue((0, 3, 10, 20), (5, 9, 130, 140, 200))], "gap"),
    ("read live, then a gap", [queue((0, 9, 10, 120, 200), (12, 14, 300, 310))], "live_read"),
    ("all queues read to their ends, and it stood still", [live(200), queue((0, 9, 10, 120, 1))], "live_read"),
    ("all queues read to their ends, files behind it", [live(200), queue((0, 9, 10, 120))], "unread"),
    ("all queues read to their ends, and nobody told of it", [live(200)], "unread"),
    ("all queues read to their ends, and it was empty", [live(200), queue((0, 0, None, None, 1))], "from_beginning"),
    ("all queues read to their ends, though before the op", [live(199), queue((0, 0, None, None, 1))], "unread"),
    ("the topic's queues read to their ends", [live(200, topic="TopicA"), queue((0, 0, None, None, 1))], "from_beginning"),
    ("the topic's queues read to their ends, and nobody told of it", [live(200, topic="TopicA")], "unread"),
    ("read live, then deleted", [live(200), queue((0, 9, 10, 120, 1), is_untold=True)], "untold"),
    ("read live to its end past the op, then deleted", [live(200), queue((0, 9, 10, 120, 200), is_untold=True)],
     "live_read"),
    ("read past the op, then deleted", [live(300), queue((0, 9, 10, 201), is_untold=True)], "read_past_op"),
    ("never told of", [live(200), queue(is_untold=True)], "untold"),
    ("never told of, and the log was read", [live(200), queue(is_untold=True), log((0, 300))], "log_read"),
    ("read live, and empty", [queue((0, 0, None, None, 200))], "from_beginning"),
    ("read live, and empty before the op", [queue((0, 0, None, None, 199))], "unread"),
    ("read live to its end past the op, all of it behind the half", [queue((0, 9, 101, 120, 200))], "from_beginning"),
    ("the topic's queues read to their ends, and it stood still", [live(200, topic="TopicA"), queue((0, 9, 10, 120, 1))], "live_read"),
    ("read past the op, and it had begun anew between", [queue((0, 9, 10, 201), changes=[anew(120, 180)])], "untold"),
    ("the same, and nobody knows before which place", [queue((0, 9, 10, 201), changes=[anew(199, None)])], "untold"),
    ("it had begun anew before the half", [queue((0, 9, 10, 201), changes=[anew(50, 100)])], "read_past_op"),
    ("it began anew behind the op", [queue((0, 9, 10, 201), changes=[anew(200, 900)])], "read_past_op"),
    ("it began anew twice", [queue((0, 9, 10, 201), changes=[anew(50, 100), anew(120, 180)])], "untold"),
    ("read live, and it had begun anew between", [queue((0, 9, 10, 120, 200), changes=[anew(150, 300)])], "untold"),
    ("files to its end, and it had begun anew", [ended((0, 9, 10, 120), changes=[anew(150, 300)]), *BEHIND], "untold"),
    ("it had begun anew, and the log was read", [queue((0, 9, 10, 201), changes=[anew(120, 180)]), log((0, 300))],
     "log_read"),
    ("another topic's queues read to their ends", [live(200, topic="TopicB")], "left_out"),
    # 4. a reading client told where the queue ends
    ("files to the end of the queue", [ended((0, 9, 10, 120)), *BEHIND], "file_end"),
    ("files to the end of the queue, all of it behind the half", [ended((0, 9, 101, 120)), *BEHIND], "from_beginning"),
    ("files to the end, what lies before is missing", [ended((1, 9, 101, 120)), *BEHIND], "gap"),
    ("a given-up message is behind the op", [ended((0, 9, 10, 120)), ended((0, 5, 10, 201), topic=GIVEN_UP), OPS],
     "file_end"),
    ("no message is behind the op", [ended((0, 9, 10, 120)), ended((0, 5, 10, 200), **OTHER), OPS], "unread"),
    ("halves and ops alone are behind it", [ended((0, 9, 10, 120)), ended((0, 5, 10, 900), topic=HALVES), OPS],
     "unread"),
    ("what is behind it told no end", [ended((0, 9, 10, 120)), {**queue((0, 5, 10, 201)), **OTHER}, OPS], "unread"),
    ("ops told no end", [ended((0, 9, 10, 120)), ended((0, 5, 10, 201), **OTHER), {**OPS, "first_told_end": None}],
     "unread"),
    ("ops went on behind the end told", [ended((0, 9, 10, 120)), BEHIND[0], {**OPS, "told_end": 8}], "unread"),
    ("another queue was told twice", [ended((0, 9, 10, 120)), ended((0, 5, 10, 201), first_told_end=4, **OTHER), OPS],
     "unread"),
    ("the queue itself was told twice", [ended((0, 9, 10, 120), first_told_end=8), *BEHIND], "unread"),
    ("told by a version that kept no first end", [queue((0, 9, 10, 120), file_end=9), *BEHIND], "unread"),
    ("files of which nobody told the end", [queue((0, 9, 10, 120)), *BEHIND], "unread"),
    ("files cut short", [queue((0, 9, 10, 120), told_end=10, first_told_end=10), *BEHIND], "unread"),
    ("files to an end, and it goes on", [ended((0, 9, 10, 120), told_end=10), *BEHIND], "unread"),
    ("files to the end, a hole between", [ended((0, 3, 10, 110), (5, 9, 130, 140)), *BEHIND], "gap"),
    # Nothing at all
    ("another queue of its topic landed", [{**queue((0, 9, 1, 999)), "queue_id": 1}], "unread"),
    ("another topic landed", [{**queue((0, 9, 1, 999)), **OTHER}], "left_out"),
    ("nothing is known of any source", [], "left_out"),
    ("a queue of which nothing landed", [queue()], "unread"),
]  # fmt: skip
ROLLED_BACK = {"read_past_op", "log_read", "live_read", "from_beginning", "file_end"}


def resolved(spark, names, origin="landed", **more):
    """A transaction by each name, of a broker by that name; `origin` of its ops."""
    halves, ops = [], []
    for why in names:
        half = {"broker_name": why, "transaction_id": why}
        halves += [{**half, "commit_log_offset": LOW}, {**half, "commit_log_offset": COPY, "queue_offset": 1,
                                                        "broker_check_times": 1}]  # fmt: skip
        ops += [{"broker_name": why, "commit_log_offset": place, "origin": origin} for place in (160, OP)]
    return evidence(spark, halves=halves, ops=ops, **more)


def reasons(spark, found, frontier, quarantine=(), role="audit"):
    figures = transaction_figures(found)
    tables = [rows(spark, "landing_frontier", frontier), rows(spark, "quarantine", quarantine)]
    verdicts = judged(figures, *tables, policies=policies(role), now=NOW, pass_number=1)
    return table_of(verdicts, "transaction_id", "verdict", "reason", "is_settled")


def expected(reason):
    is_proved = reason in ROLLED_BACK
    return "ROLLED_BACK" if is_proved else "RESOLVED_UNKNOWN", reason, reason == "read_past_op"


def test_no_message_means_rolled_back_only_where_it_would_have_been_seen(spark):
    frontier = [{"broker_name": why, **row} for why, found, _ in PROVED for row in found]
    found = reasons(spark, resolved(spark, [why for why, *_ in PROVED]), frontier)
    assert found == {why: expected(reason) for why, _, reason in PROVED}


def test_without_its_original_half_a_transaction_is_looked_for_from_the_beginning(spark):
    frontier = {
        "from the beginning": [queue((0, 9, 50, 201))],
        "from before its copy": [queue((1, 9, 50, 201))],
        "the whole log": [log((0, 201))],
        "the log from later on": [log((1, 201))],
    }
    halves = [{"broker_name": why, "transaction_id": why, "commit_log_offset": COPY, "prepared_queue_offset": 7}
              for why in frontier]  # fmt: skip
    ops = [{"broker_name": why, "commit_log_offset": OP} for why in frontier]
    found = reasons(spark, evidence(spark, halves=halves, ops=ops),
                    [{"broker_name": why, **row} for why, found in frontier.items() for row in found])  # fmt: skip
    assert {why: reason for why, (_, reason, _) in found.items()} == {
        "from the beginning": "from_beginning",
        "from before its copy": "gap",
        "the whole log": "log_read",
        "the log from later on": "unread",
    }


def test_what_names_no_real_queue_is_proved_by_a_whole_log_alone(spark):
    cases = {"no topic": {"real_topic": None}, "no queue": {"real_queue_id": None}}
    sources = {"a log": log((0, 300)), "part of a log": log((0, 300), topic="[T*]"), "a queue": queue((0, 9, 1, 999))}
    halves, ops, frontier = [], [], []
    for case, real in cases.items():
        for source, row in sources.items():
            name = f"{case}, {source}"
            halves.append({"broker_name": name, "transaction_id": name, "commit_log_offset": LOW, **real})
            ops.append({"broker_name": name, "commit_log_offset": OP})
            frontier.append({"broker_name": name, **row})
    found = reasons(spark, evidence(spark, halves=halves, ops=ops), frontier)
    assert {why: reason for why, (_, reason, _) in found.items()} == {
        "no topic, a log": "log_read", "no topic, part of a log": "no_real_topic", "no topic, a queue": "no_real_topic",
        "no queue, a log": "log_read", "no queue, part of a log": "log_read", "no queue, a queue": "no_real_topic",
    }  # fmt: skip


DOUBTS = {  # message; what it makes of a rollback that is proved otherwise
    "nothing": (None, "read_past_op"),
    "in another topic": ({"topic": "TopicX", "prepared_transaction_offset": LOW}, "elsewhere"),
    "with another id": ({"transaction_id": "other", "prepared_transaction_offset": COPY}, "elsewhere"),
    "without the bits": ({"sys_flag": 0, "prepared_transaction_offset": LOW}, "elsewhere"),
    "sent back by a consumer": ({"topic": "%RETRY%CG", "prepared_transaction_offset": LOW}, "elsewhere"),
    "an orphan of its id": ({"prepared_transaction_offset": 77}, "elsewhere"),
    "an orphan of its id, a retry": ({"topic": "%RETRY%CG", "prepared_transaction_offset": 0}, "read_past_op"),
    "of another place and id": ({"transaction_id": "other", "prepared_transaction_offset": 77}, "read_past_op"),
}


def test_a_message_that_may_be_its_own_puts_a_rollback_in_doubt(spark):
    messages = [
        {"broker_name": why, "transaction_id": why, **message} for why, (message, _) in DOUBTS.items() if message
    ]
    frontier = [{"broker_name": why, **queue((0, 9, 99, 201))} for why in DOUBTS]
    found = resolved(spark, DOUBTS, visible=messages)
    landed = rows(spark, "message", messages)
    orphans = without_half(committed_by_brokers(landed, policies("audit")), found.halves)
    doubted = replace(found, orphans=orphans)
    assert {why: reason for why, (_, reason, _) in reasons(spark, doubted, frontier).items()} == {
        why: reason for why, (_, reason) in DOUBTS.items()
    }


BAD = {  # row of quarantine; reason where the queue has a hole there
    "none": (None, "gap"),
    "of its queue, between": ({**REAL, "commit_log_offset": 125}, "quarantined"),
    "of its queue, before its half": ({**REAL, "commit_log_offset": 99}, "gap"),
    "of its queue, behind its op": ({**REAL, "commit_log_offset": 201}, "gap"),
    "of its queue, nobody knows where": (REAL, "quarantined"),
    "of another queue": ({**REAL, "queue_id": 1, "commit_log_offset": 125}, "gap"),
    "of a queue that nobody knows, between": ({"commit_log_offset": 125}, "quarantined"),
    "of a queue that nobody knows, before": ({"commit_log_offset": 99}, "gap"),
    "of nothing that lies in a queue": ({}, "gap"),
}


def test_a_record_in_quarantine_is_told_where_the_message_may_be_it(spark):
    frontier = [{"broker_name": why, **queue((0, 3, 10, 120), (4, 9, 130, 201))} for why in BAD]
    bad = [{"broker_name": why, "fingerprint": why, **row} for why, (row, _) in BAD.items() if row is not None]
    found = reasons(spark, resolved(spark, BAD), frontier, bad)
    assert {why: reason for why, (_, reason, _) in found.items()} == {why: reason for why, (_, reason) in BAD.items()}


HALF_QUEUE = {"topic": HALVES, "queue_id": 0}
RIVALS = {  # row of quarantine that another record's key kept out; what it makes of a rollback proved otherwise
    "none": (None, "read_past_op"),
    "a message between": ({**REAL, "commit_log_offset": 125}, "quarantined"),
    "a message before the half": ({**REAL, "commit_log_offset": 99}, "read_past_op"),
    "a message behind the op": ({**REAL, "commit_log_offset": 201}, "read_past_op"),
    "a message, nobody knows where": (REAL, "quarantined"),
    "a message of another queue": ({**REAL, "queue_id": 1, "commit_log_offset": 125}, "read_past_op"),
    "a damaged message that landed from elsewhere": (
        {**REAL, "commit_log_offset": 125, "reason": "BODY_CRC"}, "read_past_op"),
    "a half of an offset of its own": ({**HALF_QUEUE, "queue_offset": 1, "commit_log_offset": 999}, "quarantined"),
    "a half of another offset": ({**HALF_QUEUE, "queue_offset": 2, "commit_log_offset": 150}, "read_past_op"),
}  # fmt: skip


def test_a_record_that_another_one_kept_out_was_seen_by_no_reading(spark):
    """A broker made anew, or cut back by a crash, uses offsets again: whoever landed first has the key."""
    frontier = [{"broker_name": why, **queue((0, 9, 99, 201))} for why in RIVALS]
    bad = [{"broker_name": why, "fingerprint": why, "reason": "KEY_CONFLICT", **row}
           for why, (row, _) in RIVALS.items() if row is not None]  # fmt: skip
    found = reasons(spark, resolved(spark, RIVALS), frontier, bad)
    assert {why: reason for why, (_, reason, _) in found.items()} == {
        why: reason for why, (_, reason) in RIVALS.items()
    }


def test_of_more_rivals_than_are_kept_the_lowest_count_as_anywhere_below(spark, monkeypatch):
    monkeypatch.setattr(bad_places, "MOST_PLACES", 2)
    places = {"two above": (300, 400), "three above": (300, 400, 500), "three below": (10, 20, 30)}
    frontier = [{"broker_name": why, **queue((0, 9, 99, 201))} for why in places]
    bad = [
        {"broker_name": why, "fingerprint": f"{why} {place}", "reason": "KEY_CONFLICT", **REAL,
         "commit_log_offset": place}
        for why, found in places.items() for place in found
    ]  # fmt: skip
    found = reasons(spark, resolved(spark, places), frontier, bad)
    assert {why: reason for why, (_, reason, _) in found.items()} == {
        "two above": "read_past_op",
        "three above": "quarantined",
        "three below": "read_past_op",
    }


def test_what_has_the_id_of_a_committed_message_without_a_half_is_not_undecided(spark):
    """Its half, or the one of a send tried again, was not read: nobody may be advised to decide it once more."""
    halves = [{"broker_name": why, "transaction_id": why, "commit_log_offset": COPY} for why in ("half", "alone")]
    given_up = [{"broker_name": "given up", "transaction_id": "given up", "commit_log_offset": COPY}]
    orphans = [{"broker_name": why, "transaction_id": why} for why in ("half", "given up")]
    found = evidence(spark, halves=halves, given_up=given_up, orphans=orphans)
    assert reasons(spark, found, []) == {
        "half": ("RESOLVED_UNKNOWN", "elsewhere", False),
        "given up": ("RESOLVED_UNKNOWN", "elsewhere", False),
        "alone": ("PENDING", "op_unread", False),
    }
    assert {verdict for verdict, *_ in reasons(spark, found, [], role="engine").values()} == {"PENDING", "DISCARDED"}


def test_the_engine_needs_proof_only_of_what_a_broker_decided(spark):
    own = reasons(spark, resolved(spark, ["T"], origin="txmq"), [], role="engine")
    assert own == {"T": ("ROLLED_BACK", "decided", True)}
    restored = {"broker_name": "T", "transaction_id": "T", "topic": "TopicX", "prepared_transaction_offset": LOW}
    of_a_copy = resolved(spark, ["T"], origin="txmq", visible=[restored])
    assert reasons(spark, of_a_copy, [], role="engine") == {"T": ("RESOLVED_UNKNOWN", "elsewhere", False)}
    assert reasons(spark, resolved(spark, ["T"]), [], role="engine") == {"T": ("RESOLVED_UNKNOWN", "left_out", False)}
    proved = [{"broker_name": "T", **queue((0, 9, 99, 201))}]
    assert reasons(spark, resolved(spark, ["T"]), proved, role="engine") == {"T": ("ROLLED_BACK", "read_past_op", True)}


def test_two_ops_mean_two_ends_unless_one_may_be_that_of_another_half(spark):
    """A broker made anew under its name uses offsets again: an op of then names a half of before."""
    names = ("alone", "beside another half")
    messages = [{"broker_name": why, "transaction_id": why, "prepared_transaction_offset": LOW} for why in names]
    kept_out = {"broker_name": names[1], "reason": "KEY_CONFLICT", **HALF_QUEUE, "queue_offset": 1}
    found = reasons(spark, resolved(spark, names, visible=messages), [], [kept_out])
    assert found == {"alone": ("CONFLICT", "two_ops", True), "beside another half": ("COMMITTED", "visible", True)}


OPS_READ = {  # runs of the op queue; why a message without an op has none
    "read past the message": ([(0, 9, 10, 181)], "no_op"),
    "read to the message": ([(0, 9, 10, 180)], "op_unread"),
    "a hole before it": ([(0, 3, 10, 20), (4, 9, 130, 181)], "op_unread"),
    "read from the first op on, which is behind its half": ([(0, 9, 130, 181)], "no_op"),
    "the first ops are missing": ([(1, 9, 130, 181)], "op_unread"),
    "a hole before its half": ([(0, 3, 10, 20), (4, 9, 99, 181)], "no_op"),
    "nothing": ([], "op_unread"),
}


def test_an_op_is_lost_only_where_it_would_have_been_seen(spark):
    halves = [{"broker_name": why, "transaction_id": why, "commit_log_offset": LOW} for why in OPS_READ]
    visible = [{"broker_name": why, "transaction_id": why, "prepared_transaction_offset": LOW, "commit_log_offset": 180}
               for why in OPS_READ]  # fmt: skip
    frontier = [{"broker_name": why, **queue(*found), "topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
                for why, (found, _) in OPS_READ.items()]  # fmt: skip
    found = reasons(spark, evidence(spark, halves=halves, visible=visible), frontier)
    assert found == {why: ("COMMITTED_OP_LOST", reason, False) for why, (_, reason) in OPS_READ.items()}


def test_an_op_is_not_lost_where_one_may_have_been_left_out(spark):
    past_it, _ = OPS_READ["read past the message"]
    bad = {"topic": OPS["topic"], "queue_id": 0, "commit_log_offset": LOW + 1}
    stories = {  # runs of the op queue and of the half queue, what lies in quarantine; why a message without an op has none
        # It may name a copy of the half that has not landed.
        "a copy may lie in a hole": (past_it, [(0, 3, 10, 120), (5, 9, 130, 140)], None, "op_unread"),
        "the hole is before the half": (past_it, [(0, 3, 10, 20), (5, 9, 90, 140)], None, "no_op"),
        "the hole is behind the message": (past_it, [(0, 3, 10, 180), (5, 9, 190, 200)], None, "no_op"),
        # However far ops were read.
        **{
            f"{reason}, {why}": (ops_read, [], reason, "op_unread")
            for reason in ("KEY_CONFLICT", "OP_TOKEN", "OP_BODY_TOO_LARGE")
            for why, (ops_read, _) in OPS_READ.items()
        },
    }
    halves = [{"broker_name": why, "transaction_id": why, "commit_log_offset": LOW} for why in stories]
    visible = [
        {"broker_name": why, "transaction_id": why, "prepared_transaction_offset": LOW, "commit_log_offset": 180}
        for why in stories
    ]
    frontier = [{"broker_name": why, **queue(*ops), "topic": OPS["topic"]} for why, (ops, *_) in stories.items()]
    frontier += [
        {"broker_name": why, **queue(*of_halves), "topic": HALVES}
        for why, (_, of_halves, *_) in stories.items()
        if of_halves
    ]
    unread = [
        {"broker_name": why, "fingerprint": why, "reason": reason, **bad}
        for why, (*_, reason, _) in stories.items()
        if reason
    ]
    found = reasons(spark, evidence(spark, halves=halves, visible=visible), frontier, unread)
    assert found == {why: ("COMMITTED_OP_LOST", reason, False) for why, (*_, reason) in stories.items()}
