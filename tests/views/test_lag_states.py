"""What a consumer group does with a queue: hand-made histories for each state and border, and the `consumer` capture.

The window is ten minutes and ends at noon, when the newest message of the broker was stored; it begins at 11:50.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import truth
from moment import NOW

from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.lag import MOST_LOOKED_UP, LagWindow
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

WINDOW = LagWindow(NOW, 600_000)
PLACE = {"broker_name": "b", "consumer_group": "CG", "topic": "T", "queue_id": 0}


def at(minute: float) -> str:
    """Minutes after 11:50: 0 is the window's begin, 10 its end."""
    return (NOW - timedelta(minutes=10 - minute)).isoformat()


def queue(next_offset: int, moved: float, reported: float | None = None, **more: Any) -> dict[str, Any]:
    reported_at = at(moved if reported is None else reported)
    return {
        **PLACE,
        "next_offset": next_offset,
        "updated_timestamp": at(moved),
        "last_report_timestamp": reported_at,
        **more,
    }


def report(minute: float, next_offset: int, **more: Any) -> dict[str, Any]:
    return {**PLACE, "ts": at(minute), "next_offset": next_offset, "is_increase_only": True, **more}


def stored(*minutes: float, first: int = 0) -> list[dict[str, Any]]:
    """Messages of the queue by when they were stored."""
    return [
        {"broker_name": "b", "topic": "T", "queue_id": 0, "queue_offset": first + n, "store_timestamp": at(minute)}
        for n, minute in enumerate(minutes)
    ]


def frontier(next_offset: int, **more: Any) -> list[dict[str, Any]]:
    """The queue's end, and another queue in which a message was stored at noon: the broker is alive until then."""
    place = {"broker_name": "b", "topic": "T", "queue_id": 0, "next_offset": next_offset, "is_end_known": True}
    return [{**place, **more}, {**place, "topic": "Other", "highest_store_timestamp": at(10)}]


@pytest.fixture
def judged(warehouse):
    def judge(
        offsets: list[dict[str, Any]],
        reports: list[dict[str, Any]],
        messages: list[dict[str, Any]],
        ends: list[dict[str, Any]],
        window: LagWindow = WINDOW,
    ) -> dict[tuple[str, int], dict[str, Any]]:
        content = {
            "consumer_offset": offsets, "consumer_offset_commit": reports, "message": messages, "landing_frontier": ends,
        }  # fmt: skip
        reader = WarehouseReader(warehouse(content))
        rows = view_rows(reader, OFFSETS, ViewQuery(lag_window=window), columns=OFFSETS.columns)
        judged_rows = [dict(zip(OFFSETS.columns, row, strict=True)) for row in rows]
        return {(row["consumer_group"], row["queue_id"]): row for row in judged_rows}

    return judge


# Ten messages: eight before the window, the last of them as it begins, and two within it.
MESSAGES = stored(*(-30 + n for n in range(7)), 0, 3, 6)
HISTORIES = {  # offsets, reports, state; the end is 10
    "nothing waits": (queue(10, 9), [report(9, 10)], "fine"),
    "nothing waits and nobody has reported for days (Burrow 38)": (queue(10, -5000), [], "fine"),
    "only what came within the window waits (Burrow 303)": (queue(8, -5000), [], "fine"),
    "one message from before the window waits": (queue(7, -5000), [], "stopped"),
    "stopped: moved and reported last at the window's begin": (queue(7, 0), [report(0, 7)], "stopped"),
    "stopped: moved last at the begin, its reports are archived": (queue(7, 0), [], "stopped"),
    "stalled: moved last at the begin, reports a moment later": (queue(7, 0, 0.001), [report(0, 7), report(0.001, 7)], "stalled"),
    "stalled: reports the same value again and again": (queue(7, -1, 9), [report(-1, 7), report(5, 7), report(9, 7)], "stalled"),
    "falling behind: one consumed, two stored": (queue(6, 5), [report(-1, 5), report(5, 6)], "falling_behind"),
    "keeping up: two consumed, two stored": (queue(7, 5), [report(-1, 5), report(5, 7)], "fine"),
    "catching up: three consumed, two stored": (queue(7, 5), [report(-1, 4), report(5, 7)], "fine"),
    "falling behind: a smaller report is not what was held": (queue(6, 5), [report(-2, 5), report(-1, 2), report(5, 6)], "falling_behind"),
    "falling behind: what a set took back is not what was held": (queue(6, 5), [report(-4, 3), report(-3, 6), report(-2, 5, is_increase_only=False), report(-1, 4), report(5, 6)], "falling_behind"),
    "falling behind, known since within the window": (queue(6, 5), [report(1, 5), report(5, 6)], "falling_behind"),
    "keeping up, known since within the window": (queue(5, 5), [report(4, 4), report(5, 5)], "fine"),
    "known since within the window, one report is no history": (queue(5, 5), [report(5, 5)], "unknown"),
    "moved within the window, reports lost": (queue(5, 5), [], "unknown"),
    "stale smaller report does not make it move": (queue(7, -1, 9), [report(-1, 7), report(9, 3)], "stalled"),
}  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES)
def test_a_group_is_judged_by_its_history(judged, history):
    offsets, reports, expected = HISTORIES[history]
    row = judged([offsets], reports, MESSAGES, frontier(10))["CG", 0]
    assert row["lag_state"] == expected
    assert row["lag"] == 10 - offsets["next_offset"]
    assert row["judged_timestamp"] == "2026-11-21T12:00:00.000Z"


@pytest.mark.parametrize(
    ("group", "topic", "expected"),
    [
        ("CG", "%RETRY%CG_T", "pop"), ("CG", "%RETRY%CG+T", "pop"), ("CG", "%RETRY%CG", "stalled"),
        ("CG", "%RETRY%CG_Other", "stalled"), ("Other", "%RETRY%CG_T", "stalled"), ("CG", "%RETRY%CGxT", "stalled"),
    ],
)  # fmt: skip
def test_what_a_pop_group_has_not_committed_is_not_called_stalled(judged, group, topic, expected):
    offsets, reports, _ = HISTORIES["stalled: reports the same value again and again"]
    retry = queue(0, 9, topic=topic, consumer_group=group, queue_id=1)
    assert judged([offsets, retry], reports, MESSAGES, frontier(10))["CG", 0]["lag_state"] == expected


def test_a_pop_group_with_nothing_waiting_is_fine(judged):
    offsets, reports, _ = HISTORIES["nothing waits"]
    retry = queue(0, 9, topic="%RETRY%CG_T", queue_id=1)
    assert judged([offsets, retry], reports, MESSAGES, frontier(10))["CG", 0]["lag_state"] == "fine"


def rewound(minute: float, from_offset: int) -> dict[str, Any]:
    moment = NOW - timedelta(minutes=10 - minute)
    return {
        "rewinds": [{"ts": moment, "from_offset": from_offset, "to_offset": 2, "client_id": None}],
        "rewind_count": 1,
    }


@pytest.mark.parametrize(
    ("why", "offsets", "expected"),
    [
        ("within the window", queue(4, 5, **rewound(3, 9)), "rewound"),
        ("one short of where it was", queue(8, 5, **rewound(3, 9)), "rewound"),
        ("back where it was", queue(9, 5, **rewound(3, 9)), "fine"),
        ("before the window: judged by what it does", queue(4, -1, **rewound(0, 9)), "stopped"),
        ("caught up with a shorter queue", queue(10, 5, **rewound(3, 11)), "rewound"),
    ],
)
def test_a_group_is_rewound_until_it_is_back_or_the_window_has_passed(judged, why, offsets, expected):
    reports = [report(-1, 2), report(5, offsets["next_offset"])]
    assert judged([offsets], reports, MESSAGES, frontier(10))["CG", 0]["lag_state"] == expected, why


@pytest.mark.parametrize(
    ("why", "next_offset", "moved", "end", "expected"),
    [
        ("beyond an end that the source tells", 11, 12, {}, "ahead_of_queue"),
        ("beyond an end that may be behind what was reported", 11, 10.001, {"is_end_known": False}, "unknown"),
        ("beyond the end, and messages of later were landed", 11, 10, {"is_end_known": False}, "ahead_of_queue"),
        ("at the end", 10, 9, {}, "fine"),
        ("below the oldest kept", 4, 9, {"lowest_kept_offset": 5}, "below_oldest"),
        ("at the oldest kept", 8, 9, {"lowest_kept_offset": 8}, "fine"),
    ],
)
def test_a_group_outside_its_queue_is_told_so(judged, why, next_offset, moved, end, expected):
    window = LagWindow(NOW + timedelta(hours=1), 600_000)
    rows = judged([queue(next_offset, moved)], [], MESSAGES, frontier(10, **end), window)
    assert rows["CG", 0]["lag_state"] == expected, why


def test_a_queue_whose_end_is_not_known_is_unknown(judged):
    row = judged([queue(3, 5)], [], [], [])["CG", 0]
    assert (row["lag_state"], row["state"], row["lag"], row["lag_ms"]) == ("unknown", "unknown", None, None)


def test_of_a_queue_of_which_its_broker_tells_no_more_nobody_knows_the_end(judged):
    """Deleted, or beyond readQueueNums: its group may be anywhere behind what landed."""
    for is_untold, state in ((True, "unknown"), (False, "ahead_of_queue"), (None, "ahead_of_queue")):
        (row,) = judged([queue(11, 12)], [], MESSAGES, frontier(10, is_untold=is_untold)).values()
        assert row["lag_state"] == state


def test_a_queue_that_a_group_leaves_out_was_never_committed(judged):
    ends = [*frontier(10), {**frontier(4)[0], "queue_id": 1}, {**frontier(0)[0], "queue_id": 2}]
    # How far a narrowed landing has read the log, for this topic.
    ends.append({**frontier(734_003_200)[0], "queue_id": -1})
    offsets = [queue(10, 9), queue(1, 9, consumer_group="CG2", queue_id=1), queue(10, 9, consumer_group="CG2")]
    rows = judged(offsets, [], [], ends)
    # Queue 2 is empty; CG2 has both; nobody reads Other.
    assert {key: row["lag_state"] for key, row in rows.items() if row["lag_state"] == "never_committed"} == {
        ("CG", 1): "never_committed"
    }
    row = rows["CG", 1]
    assert (row["highest_offset"], row["next_offset"], row["lag"], row["state"]) == (4, None, None, "unknown")


def test_filters_do_not_change_what_a_queue_is_judged(warehouse, txmq):
    ends = [*frontier(10), {**frontier(4)[0], "queue_id": 1}]
    content = {
        "consumer_offset": [
            queue(7, -1),
            queue(10, 9, consumer_group="CG2"),
            queue(4, 9, consumer_group="CG2", queue_id=1),
        ],
        "message": MESSAGES,
        "landing_frontier": ends,
    }
    uri = warehouse(content)

    def states(*arguments: str) -> str:
        return txmq("--warehouse", uri, "offsets", "--now", NOW.isoformat(), "--format", "csv", *arguments)[1]

    assert states("--group", "CG").count("\n") == 3
    assert states("--lag-state", "STOPPED", "--lag-state", "never_committed").count("\n") == 3
    assert states("--since", "2m").count("never_committed") == 0
    assert "stopped" in states("--group", "CG", "--topic", "T")
    code, _, err = txmq("--warehouse", uri, "offsets", "--lag-state", "broken")
    assert (code, "offsets has no state broken" in err) == (2, True)


def test_lag_in_time_is_how_long_the_next_message_has_been_stored(judged):
    offsets = [queue(7, -1), queue(2, -1, consumer_group="FAR"), queue(10, 9, consumer_group="DONE")]
    rows = judged([*offsets, queue(99, 9, consumer_group="GONE")], [], MESSAGES, frontier(10))
    assert {group: row["lag_ms"] for (group, _), row in rows.items()} == {
        "CG": 10 * 60_000, "FAR": (10 + 28) * 60_000, "DONE": 0, "GONE": 0,
    }  # fmt: skip
    # A message that has not landed has no time.
    assert judged([queue(7, -1)], [], MESSAGES[:7], frontier(10))["CG", 0]["lag_ms"] is None


def test_a_message_restored_since_the_source_was_read_last_has_waited_for_no_time(judged):
    late = LagWindow(NOW + timedelta(hours=1), 600_000)
    messages = [*MESSAGES[:9], *stored(12, first=9)]
    assert judged([queue(9, 9)], [], messages, frontier(10), late)["CG", 0]["lag_ms"] == 0


def test_many_lagging_queues_are_judged_as_few_are(judged):
    offsets = [queue(7, -1, consumer_group=f"CG{n}") for n in range(MOST_LOOKED_UP + 2)]
    rows = judged(offsets, [], MESSAGES, frontier(10))
    assert {(row["lag_state"], row["lag_ms"]) for row in rows.values()} == {("stopped", 10 * 60_000)}


def test_landing_that_is_behind_makes_no_group_look_stopped(judged):
    late = LagWindow(NOW + timedelta(days=2), 600_000)
    row = judged([queue(8, 9)], [report(9, 8)], MESSAGES, frontier(10), late)["CG", 0]
    assert (row["lag_state"], row["judged_timestamp"]) == ("fine", "2026-11-21T12:00:00.000Z")


def test_a_report_of_the_future_does_not_move_the_window(judged):
    row = judged([queue(7, -1, 60 * 24 * 365)], [report(60 * 24 * 365, 7)], MESSAGES, frontier(10))["CG", 0]
    assert row["judged_timestamp"] == "2026-11-21T12:00:00.000Z"


def test_broadcast_groups_are_marked_where_the_broker_names_them_so(judged):
    rows = judged([queue(10, 9), queue(10, 9, consumer_group="CG@broadcast")], [], [], frontier(10))
    assert {group: row["is_broadcast"] for (group, _), row in rows.items()} == {"CG": False, "CG@broadcast": True}


# --- the capture: real consumers, and what a client saw of the broker's offsets every half second


def of_capture(until_ms: int) -> tuple[Any, ...]:
    """Offsets, reports, messages and ends as a landing at that moment finds them; sets are what the broker was polled for."""
    reports, offsets = [], {}
    polled = [row for row in truth.rows("consumer", "consumer_offsets") if row["ts"] <= until_ms]
    for number, row in enumerate(polled):
        if row["brokerOffset"] < 0:
            continue
        key = (row["group"], row["topic"], row["queueId"])
        place = {"broker_name": "b", "consumer_group": key[0], "topic": key[1], "queue_id": key[2]}
        place_and_time = {
            **place,
            "ts": moment(row["ts"]).isoformat(),
            "next_offset": row["brokerOffset"],
            "landing_order": number,
        }
        reports.append({**place_and_time, "is_increase_only": False, "content_hash": number})
        held = offsets.get(key)
        known = held or {**place, "next_offset": None, "rewinds": []}
        if known["next_offset"] is not None and row["brokerOffset"] < known["next_offset"]:
            known["rewinds"].append(
                {
                    "ts": moment(row["ts"]),
                    "from_offset": known["next_offset"],
                    "to_offset": row["brokerOffset"],
                    "client_id": None,
                }
            )
        if row["brokerOffset"] != known["next_offset"]:
            known |= {"next_offset": row["brokerOffset"], "updated_timestamp": place_and_time["ts"]}
        offsets[key] = {**known, "last_report_timestamp": place_and_time["ts"]}
    messages = [
        {"broker_name": "b", "topic": row["topic"], "queue_id": row["queueId"], "queue_offset": row["queueOffset"],
         "store_timestamp": moment(row["storeTimestamp"]).isoformat()}
        for row in truth.rows("consumer", "visible") if row["storeTimestamp"] <= until_ms
    ]  # fmt: skip
    ends: dict[tuple[str, int], int] = {}
    for row in messages:
        place = (row["topic"], row["queue_id"])
        ends[place] = max(ends.get(place, 0), row["queue_offset"] + 1)
    frontiers = [
        {"broker_name": "b", "topic": topic, "queue_id": queue_id, "next_offset": end, "is_end_known": True,
         "highest_store_timestamp": moment(until_ms).isoformat()}
        for (topic, queue_id), end in ends.items()
    ]  # fmt: skip
    return list(offsets.values()), reports, messages, frontiers


def moment(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


def test_real_consumers_are_judged_as_the_capture_shows_them(judged):
    """Where the client saw offset and end equal the group is fine; while a reset is not made up for it is rewound."""
    polled = [row for row in truth.rows("consumer", "consumer_offsets") if row["brokerOffset"] >= 0]
    last = max(row["ts"] for row in polled)
    seen = set()
    for until in range(last - 40_000, last + 1, 4_000):
        rows = judged(*of_capture(until), LagWindow(moment(until), 5_000))
        newest = {(row["group"], row["topic"], row["queueId"]): row for row in polled if row["ts"] <= until}
        for (group, topic, queue_id), row in newest.items():
            lag = rows.get((group, queue_id))
            if lag is None or lag["topic"] != topic or lag["highest_offset"] != row["maxOffset"]:
                continue
            at_end = row["brokerOffset"] == row["maxOffset"]
            if at_end:
                assert lag["lag_state"] == "fine", (until, lag)
            seen.add((group, lag["lag_state"]))
    assert ("CG_RESET", "rewound") in seen
    assert {state for _, state in seen} <= {"fine", "rewound", "stalled", "stopped", "falling_behind", "unknown"}
