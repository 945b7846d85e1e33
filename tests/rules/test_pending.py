"""Half copies folded into transactions, and what closes them (R26, R39, R56, R64, R73)."""

from __future__ import annotations

import pytest
from builders import at, lines_of, rows, table_of
from chispa import assert_df_equality

from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.pending import closed, copies_of, effectively_given_up, folded, made_visible, named_by_ops, opened

pytestmark = pytest.mark.spark

PENDING = {"first_store_timestamp": at(0), "last_store_timestamp": at(0)}
CHAIN = [  # the original, two check copies, and what `resume` put back, as they may land in any order
    {"queue_offset": 48, "commit_log_offset": 9_400, "store_timestamp": at(300), "offset_msg_id": "d",
     "broker_check_times": 0, "real_topic": None, "real_queue_id": None, "check_immunity": None},
    {"queue_offset": 40, "commit_log_offset": 9_000, "store_timestamp": at(0), "offset_msg_id": "a",
     "broker_check_times": None, "real_topic": None, "real_queue_id": None, "check_immunity": "60"},
    {"queue_offset": 45, "commit_log_offset": 9_300, "store_timestamp": at(200), "offset_msg_id": "c",
     "broker_check_times": 2, "real_topic": "TopicB", "real_queue_id": 2, "check_immunity": "60"},
    {"queue_offset": 43, "commit_log_offset": 9_100, "store_timestamp": at(100), "offset_msg_id": "b",
     "broker_check_times": 1, "real_topic": "TopicA", "real_queue_id": 1, "check_immunity": "60"},
]  # fmt: skip


def test_all_copies_of_a_transaction_fold_into_one_row_led_by_the_newest(spark):
    expected = rows(
        spark,
        "pending_half",
        [{"queue_offset": 48, "commit_log_offset": 9_400, "offset_msg_id": "d", "half_offsets": [40, 43, 45, 48],
          "half_commit_log_offsets": [9_000, 9_100, 9_300, 9_400], "first_store_timestamp": at(0),
          "last_store_timestamp": at(300), "broker_check_times": 2, "real_topic": "TopicA", "real_queue_id": 1,
          "check_immunity": None}],
    ).drop("check_times", "last_check_timestamp", "next_check_timestamp", "is_held")  # fmt: skip
    for halves in (CHAIN, CHAIN[::-1]):
        found = folded(rows(spark, "half_message", halves))
        assert_df_equality(found, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


def test_what_differs_in_broker_id_group_or_born_time_is_another_transaction(spark):
    halves = [
        {"queue_offset": 1, "commit_log_offset": 10},
        {"queue_offset": 2, "commit_log_offset": 20, "transaction_id": "U"},
        {"queue_offset": 3, "commit_log_offset": 30, "producer_group": "PH"},
        {"queue_offset": 4, "commit_log_offset": 40, "producer_group": None},
        {"queue_offset": 5, "commit_log_offset": 50, "producer_group": None},
        {"queue_offset": 6, "commit_log_offset": 60, "born_timestamp": at(1)},
        {"queue_offset": 7, "commit_log_offset": 70},
        {"queue_offset": 8, "commit_log_offset": 80, "broker_name": "c"},
        {"queue_offset": 0, "commit_log_offset": 0, "transaction_id": "0A00", "offset_msg_id": "0A00"},
    ]
    found = folded(rows(spark, "half_message", halves))
    assert sorted(row.half_offsets for row in found.collect()) == [[0], [1, 7], [2], [3], [4, 5], [6], [8]]


def test_what_was_asked_before_stays_known_when_a_copy_lands(spark):
    before = [
        {"transaction_id": "untouched", "check_times": 3, "last_check_timestamp": at(-5)},
        {"transaction_id": "copied", "check_times": 2, "last_check_timestamp": at(-7), "next_check_timestamp": at(9)},
        {"transaction_id": "no group", "producer_group": None, "check_times": 1, "last_check_timestamp": at(-1)},
    ]
    halves = [
        {"transaction_id": "copied", "queue_offset": 1, "commit_log_offset": 10},
        {"transaction_id": "copied", "queue_offset": 9, "commit_log_offset": 90, "broker_check_times": 7},
        {"transaction_id": "no group", "producer_group": None, "queue_offset": 3, "commit_log_offset": 30},
        {"transaction_id": "new", "queue_offset": 2, "commit_log_offset": 20},
    ]
    found = opened(rows(spark, "pending_half", before), rows(spark, "half_message", halves))
    assert "next_check_timestamp" not in found.columns
    assert table_of(found, "transaction_id", "half_offsets", "check_times", "last_check_timestamp",
                    "broker_check_times") == {
        "untouched": ([0], 3, -5, 0),
        "copied": ([1, 9], 2, -7, 7),
        "no group": ([3], 1, -1, 0),
        "new": ([2], 0, None, 0),
    }, "a broker's copies only extend the chain: what they count is not what txmq asked"  # fmt: skip


def test_each_copy_has_its_own_place(spark):
    fields = {"half_offsets": [40, 48], "half_commit_log_offsets": [9_000, 9_400], "queue_offset": 48,
             "commit_log_offset": 9_400, "queue_id": 2}  # fmt: skip
    copies = copies_of(rows(spark, "pending_half", [fields]))
    assert lines_of(copies, "transaction_id", "real_topic", "queue_id", "queue_offset", "commit_log_offset") == [
        ("T", "TopicA", 2, 40, 9_000),
        ("T", "TopicA", 2, 48, 9_400),
    ]


def two_copies(spark, **more):
    """A transaction whose original, the broker's very first message, and whose check copy have landed."""
    fields = {"half_offsets": [0, 48], "half_commit_log_offsets": [0, 9_400], "commit_log_offset": 9_400, **more}
    return rows(spark, "pending_half", [{**PENDING, **fields}])


MESSAGES = [  # why, message, whether it is the transaction become visible
    ("committed by the original's offset, which is 0", {"prepared_transaction_offset": 0}, True),
    ("committed by the copy's offset", {"prepared_transaction_offset": 9_400}, True),
    ("committed by the given-up copy's offset", {"prepared_transaction_offset": 9_900}, True),
    ("compressed, from IPv6 hosts, committed", {"prepared_transaction_offset": 0, "sys_flag": 0x1 | 0x30 | 8}, True),
    ("without an id, as its half was", {"prepared_transaction_offset": 9_400, "transaction_id": None}, True),
    ("prepared where nothing of it lies", {"prepared_transaction_offset": 9_401}, False),
    ("a retry keeps the bits, prepared offset 0", {"topic": "%RETRY%CG", "prepared_transaction_offset": 0}, False),
    ("a delayed retry", {"topic": "SCHEDULE_TOPIC_XXXX", "prepared_transaction_offset": 0}, False),
    ("another transaction's message with prepared offset 0", {"transaction_id": "U"}, False),
    ("in another real topic", {"topic": "TopicB", "prepared_transaction_offset": 9_400}, False),
    ("of another broker", {"broker_name": "c", "prepared_transaction_offset": 9_400}, False),
    ("an ordinary message", {"sys_flag": 0, "prepared_transaction_offset": 9_400}, False),
    ("prepared, never committed", {"sys_flag": 4, "prepared_transaction_offset": 9_400}, False),
    ("rolled back", {"sys_flag": 12, "prepared_transaction_offset": 9_400}, False),
]


def test_only_a_committed_message_of_its_real_topic_makes_a_transaction_visible(spark):
    # The topic is its transaction's, whatever the row itself says.
    places = [{"commit_log_offset": 9_900, "real_topic": None}, {"commit_log_offset": None}]
    given_up = rows(spark, "trans_check_max_time", places)
    messages = [{"store_timestamp": at(turn), "queue_offset": turn, **row} for turn, (_, row, _) in enumerate(MESSAGES)]
    visible = made_visible(copies_of(two_copies(spark)), given_up, rows(spark, "message", messages))
    assert lines_of(visible, "visible_store_timestamp", "transaction_id") == [
        (turn, "T") for turn, (*_, is_visible) in enumerate(MESSAGES) if is_visible
    ]


def test_a_transaction_of_unknown_topic_is_visible_nowhere(spark):
    nowhere = copies_of(two_copies(spark, real_topic=None))
    assert made_visible(nowhere, rows(spark, "trans_check_max_time"), rows(spark, "message", [{}])).count() == 0


def test_an_op_names_any_copy_of_its_own_broker_and_queue_and_repeats_count(spark):
    ops = [
        {"half_queue_offset": 0, "store_timestamp": at(1)},
        {"half_queue_offset": 48, "store_timestamp": at(2)},
        {"half_queue_offset": 48, "store_timestamp": at(3), "position": 1},
        {"half_queue_offset": 47, "store_timestamp": at(4)},
        {"half_queue_offset": 48, "store_timestamp": at(5), "broker_name": "c"},
        {"half_queue_offset": 48, "store_timestamp": at(6), "queue_id": 1},
    ]
    named = named_by_ops(copies_of(two_copies(spark)), rows(spark, "op_message", ops))
    assert lines_of(named, "op_store_timestamp", "transaction_id") == [(1, "T"), (2, "T"), (3, "T")]


GIVEN_UP = [  # why, physical offsets of its halves, its given-up rows, whether it counts as given up
    ("given up behind its last copy", [100, 200], [{"commit_log_offset": 300}], True),
    ("resumed: a half lies behind it (R73)", [100, 400], [{"commit_log_offset": 300}], False),
    ("resumed and given up again", [100, 400], [{"commit_log_offset": 300}, {"commit_log_offset": 500}], True),
    ("of no half that landed", [], [{"commit_log_offset": 300}], True),
    ("given up by txmq at its newest half", [100, 200],
     [{"commit_log_offset": None, "half_commit_log_offset": 200}], True),
    ("given up by txmq, resumed", [100, 200], [{"commit_log_offset": None, "half_commit_log_offset": 100}], False),
    ("given up without a place", [100], [{"commit_log_offset": None}], True),
    ("never given up", [100], [], False),
]  # fmt: skip


def test_a_given_up_transaction_is_undecided_again_once_resumed(spark):
    halves = [{"transaction_id": why, "commit_log_offset": place, "queue_offset": place // 100}
              for why, places, *_ in GIVEN_UP for place in places]  # fmt: skip
    given_up_rows = [{"transaction_id": why, **row} for why, _, found, _ in GIVEN_UP for row in found]
    copies = copies_of(folded(rows(spark, "half_message", halves)))
    left = effectively_given_up(copies, rows(spark, "trans_check_max_time", given_up_rows))
    assert {row.transaction_id for row in left.select("transaction_id").collect()} == {
        why for why, *_, counts in GIVEN_UP if counts
    }


def test_an_op_a_message_or_a_given_up_row_closes_a_transaction_once(spark):
    names = [
        "open",
        "by op",
        "by message",
        "by giving up",
        "by all three",
        "resumed",
        "resumed by txmq",
        "given up again",
        "resumed twice",
    ]
    transactions = rows(
        spark,
        "pending_half",
        [{"transaction_id": name, "half_offsets": [n], "half_commit_log_offsets": [100 * n], "queue_offset": n}
         for n, name in enumerate(names)],
    )  # fmt: skip
    given_up = [{"transaction_id": name, "commit_log_offset": 999} for name in ("by giving up", "by all three")]
    given_up += [{"transaction_id": "resumed", "commit_log_offset": 499}]
    given_up += [{"transaction_id": name, "commit_log_offset": 999, "queue_offset": offset}
                 for name, *offsets in (("resumed by txmq", 7), ("given up again", 7, 9), ("resumed twice", 7, 9))
                 for offset in offsets]  # fmt: skip
    undone = [{"transaction_id": name, "given_up_queue_offset": offset}
              for name, *offsets in (("resumed by txmq", 7), ("given up again", 7), ("resumed twice", 9, 7))
              for offset in offsets]  # fmt: skip
    found = closed(
        transactions,
        rows(spark, "op_message", [{"half_queue_offset": offset} for offset in (1, 4, 4, 77)]),
        rows(spark, "message", [{"transaction_id": names[n], "prepared_transaction_offset": 100 * n} for n in (2, 4)]),
        rows(spark, "trans_check_max_time", given_up),
        resumes(rows(spark, "manual_decision", undone)),
    )
    assert lines_of(found, "transaction_id") == [
        ("by all three",), ("by giving up",), ("by message",), ("by op",), ("given up again",),
    ]  # fmt: skip
