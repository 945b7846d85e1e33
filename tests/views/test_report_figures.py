"""What the report counts over time: hand-made rows, expected figures told by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moment import NOW

from txmq_lib.report import cost, history
from txmq_lib.report.offset_history import offset_history
from txmq_lib.report.period import PARTS, Period, pass_period, reported_period
from txmq_lib.views.figures import offset_groups
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
# Parts of one minute: part n ends at 10:00 + n + 1 minutes.
PERIOD = Period(TEN, TEN + timedelta(minutes=PARTS))
WINDOW = LagWindow(NOW, 600_000)


def at(minutes: float) -> str:
    return (TEN + timedelta(minutes=minutes)).isoformat()


def told(transaction_id: str, verdict: str, first: float, last: float, **more: Any) -> dict[str, Any]:
    return {
        "transaction_id": transaction_id,
        "verdict": verdict,
        "first_timestamp": at(first),
        "last_timestamp": at(last),
        "is_settled": verdict != "PENDING",
        "producer_group": "G",
        **more,
    }


@pytest.fixture
def reader(warehouse):
    return lambda rows: WarehouseReader(warehouse(rows))


def test_undecided_transactions_are_counted_at_the_end_of_each_part_by_their_age_then(reader):
    rows = [
        told("one minute to five", "COMMITTED", 1, 5),
        told("still", "PENDING", 3.5, 3.5),
        told("within one part", "COMMITTED", 2.1, 2.9),
        told("from before the period", "ROLLED_BACK", -120, 2),
        told("diverted", "DIVERTED", 0, 40),
    ]
    counted = history.pending_over_time(reader({"verdict": rows}), PERIOD)
    # At minute 1 the first is 0 s old, at 2 a minute; at 5 it is decided. `still` is 30 s old at minute 4.
    assert counted["1m"][:6] == [1, 0, 0, 1, 0, 0]
    assert counted["10m"][:6] == [0, 1, 1, 1, 1, 1]
    assert (counted["10m"][12], counted["1h"][12:14]) == (1, [0, 1])  # ten minutes old at 13.5
    assert counted["1h"][-1] == 1
    assert counted["1d"][:3] == [1, 0, 0]  # decided at minute 2: not counted at the end of that part
    assert counted["older"] == [0] * PARTS


def test_verdicts_are_counted_by_when_their_half_was_stored_and_nothing_outside_the_period(reader):
    rows = [
        told("a", "COMMITTED", 0.5, 9),
        told("b", "COMMITTED", 1, 9),
        told("c", "CONFLICT", 1.01, 9),
        told("before", "COMMITTED", 0, 9),
        told("after", "COMMITTED", PARTS + 1, PARTS + 2),
    ]
    counted = history.verdicts_over_time(reader({"verdict": rows}), PERIOD)
    assert list(counted) == ["CONFLICT", "COMMITTED"]
    assert (counted["COMMITTED"][:3], sum(counted["COMMITTED"])) == ([2, 0, 0], 2)
    assert (counted["CONFLICT"][:3], sum(counted["CONFLICT"])) == ([0, 1, 0], 1)


def test_times_to_a_decision_fall_into_classes_that_hold_their_lower_end(reader):
    rows = [
        told("just under", "COMMITTED", 1, 1 + 2.999 / 60),
        told("three", "COMMITTED", 1, 1 + 3 / 60),
        told("rolled back", "ROLLED_BACK", 1, 1 + 3 / 60),
        told("twice is no decision", "DUPLICATED", 1, 2),
        told("before the period", "COMMITTED", -9, -8),
        told("clock went back", "COMMITTED", 2, 1),
    ]
    wide = reader({"verdict": rows})
    counted = history.decision_counts(wide, PERIOD)
    by_class = dict(zip(history.decision_classes(), zip(*counted.values(), strict=True), strict=True))
    assert {name: pair for name, pair in by_class.items() if any(pair)} == {
        "<0.1s": (1, 0), "1s-3s": (1, 0), "3s-10s": (1, 1),
    }  # fmt: skip
    (times,) = history.decision_times(wide, PERIOD)
    assert (times.producer_group, times.count, times.longest) == ("G", 4, 3.0)
    assert times.quantiles[0] == pytest.approx(2.9995)


def test_checks_and_given_up_are_counted_per_group(reader):
    rows = {
        "verdict": [
            told("a", "COMMITTED", 1, 2, check_times=2, broker_check_times=1),
            told("b", "DISCARDED", 1, 2, check_times=3, given_up_count=1),
            told("c", "COMMITTED", 1, 2, producer_group=None, broker_check_times=4),
            told("never asked", "COMMITTED", 1, 2),
        ],
        "trans_check_max_time": [
            {"producer_group": "G", "reason": "check_max", "given_up_timestamp": at(2)},
            {"producer_group": "G", "reason": "check_max", "given_up_timestamp": at(3), "queue_offset": 1},
            {"producer_group": "G", "reason": None, "given_up_timestamp": at(1), "queue_offset": 2},
        ],
    }
    wide = reader(rows)
    assert [(each.producer_group, each.by_txmq, each.by_broker, each.transactions) for each in history.check_counts(wide)] == [
        ("G", 5, 1, 2), (None, 0, 4, 1),
    ]  # fmt: skip
    given_up = history.given_up_counts(wide)
    assert [(each.reason, each.count, each.newest_timestamp.minute) for each in given_up] == [
        ("check_max", 2, 3), ("by a broker", 1, 1),
    ]  # fmt: skip
    assert history.verdicts_of_given_up(wide) == {"DISCARDED": 1}


def queue(group: str, number: int, next_offset: int, **more: Any) -> dict[str, Any]:
    return {
        "broker_name": "b", "consumer_group": group, "topic": "T", "queue_id": number, "next_offset": next_offset,
        "last_report_timestamp": at(9), "updated_timestamp": at(9), **more,
    }  # fmt: skip


def report(minutes: float, next_offset: int, *, is_set: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "broker_name": "b", "consumer_group": "CG", "topic": "T", "queue_id": 0, "ts": at(minutes),
        "next_offset": next_offset, "is_increase_only": not is_set, **more,
    }  # fmt: skip


def test_lag_over_time_follows_reports_resets_and_stored_messages(reader):
    rows = {
        "consumer_offset": [
            queue("CG", 0, 9, rewinds=[{"ts": TEN + timedelta(minutes=5), "from_offset": 8, "to_offset": 3, "client_id": None}], rewind_count=1),
        ],
        "landing_frontier": [{"broker_name": "b", "topic": "T", "queue_id": 0, "next_offset": 12}],
        "message": [
            {"broker_name": "b", "topic": "T", "queue_id": 0, "queue_offset": 9, "store_timestamp": at(-30)},
            {"broker_name": "b", "topic": "T", "queue_id": 0, "queue_offset": 10, "store_timestamp": at(7.5)},
        ],
        "consumer_offset_commit": [
            report(-60, 2), report(-50, 1, is_set=True), report(1.5, 8), report(2.5, 7), report(5, 3, is_set=True),
            report(6.5, 9), report(1.5, 99, consumer_group="not drawn", content_hash=1),
        ],
    }  # fmt: skip
    wide = reader(rows)
    found = offset_history(wide, PERIOD, offset_groups(wide, WINDOW), WINDOW)
    (drawn,) = found.queues
    # End 10, and 11 from minute 8 on; a smaller report moves nothing; the last part is the queue as it stands.
    assert drawn.behind[:8] == [9, 2, 2, 2, 7, 7, 1, 2]
    assert drawn.behind[-2:] == [2, 3]
    assert [(rewind.at.minute, rewind.from_offset, rewind.to_offset) for rewind in drawn.rewinds] == [(5, 8, 3)]
    assert found.groups == {("b", "CG"): drawn.behind}


def test_the_lag_of_a_group_is_that_of_its_queues_and_unknown_before_the_first_report(reader):
    rows = {
        "consumer_offset": [queue("CG", 0, 4), queue("CG", 1, 6)],
        "landing_frontier": [
            {"broker_name": "b", "topic": "T", "queue_id": number, "next_offset": 10} for number in (0, 1)
        ],
        "message": [
            {"broker_name": "b", "topic": "T", "queue_id": number, "queue_offset": 9, "store_timestamp": at(-1)}
            for number in (0, 1)
        ],
        "consumer_offset_commit": [report(1.5, 4), report(2.5, 6, queue_id=1)],
    }
    wide = reader(rows)
    found = offset_history(wide, PERIOD, offset_groups(wide, WINDOW), WINDOW)
    assert found.groups["b", "CG"][:4] == [None, 6, 10, 10]


def test_passes_cost_what_their_steps_took(reader):
    def committed(job: str, number: int, minutes: float, **seconds: float) -> dict[str, Any]:
        return {"job": job, "pass_number": number, "state": "committed", "wall_timestamp": at(minutes),
                "seconds": list(seconds.items())}  # fmt: skip

    rows = [
        committed("audit", 1, 1.5, verdict=2.0, find=1.0),
        committed("audit", 2, 1.7, verdict=5.0),
        committed("land", 1, 0.5, half=4.0),
        committed("land", 2, -60, half=100.0),
        {"job": "land", "pass_number": 3, "state": "started", "wall_timestamp": at(3)},
    ]
    wide = reader({"pass": rows})
    assert [(each.job, each.passes, each.total, each.median, each.longest) for each in cost.job_costs(wide, PERIOD)] == [
        ("audit", 2, 8.0, 4.0, 5.0), ("land", 1, 4.0, 4.0, 4.0),
    ]  # fmt: skip
    steps = [(each.job, each.step, each.passes, each.total) for each in cost.step_costs(wide, PERIOD)]
    assert steps == [("audit", "verdict", 2, 7.0), ("land", "half", 1, 4.0), ("audit", "find", 1, 1.0)]
    over_time = cost.cost_over_time(wide, PERIOD)
    assert list(over_time) == ["land", "audit"]  # as a cycle runs them
    assert (over_time["land"][:2], over_time["audit"][:3]) == ([4.0, 0.0], [0.0, 8.0, 0.0])


def test_the_period_is_what_was_seen_at_most_thirty_days_and_never_after_now(reader):
    rows = {
        "verdict": [told("a", "COMMITTED", 0, 30), told("later than now", "COMMITTED", 1, 60 * 24)],
        "pass": [{"job": "land", "pass_number": 1, "state": "committed", "wall_timestamp": "2026-12-24T00:00:00Z"}],
    }
    wide = reader(rows)
    found = reported_period(wide, NOW, None)
    assert (found.begin, found.end) == (TEN - timedelta(milliseconds=1), TEN + timedelta(minutes=30))
    assert reported_period(wide, NOW, TEN + timedelta(minutes=20)).begin.minute == 19
    assert pass_period(wide, NOW, None).end == datetime(2026, 12, 24, tzinfo=UTC)
    old = reader({"verdict": [told("a", "COMMITTED", -60 * 24 * 90, 0)]})
    assert reported_period(old, NOW, None).begin == TEN - timedelta(days=30, milliseconds=1)
    nothing = reported_period(reader({}), NOW, None)
    assert (nothing.end, nothing.end - nothing.begin) == (NOW, timedelta(seconds=PARTS))
