"""A service thread: its life cycle and its wait (R112 to R115, upstream cases 94 to 102), no wakeup lost (R113)."""

from __future__ import annotations

import time
from queue import SimpleQueue
from threading import Barrier, Event, Thread

import pytest

from txmq_lib.passes.current import PassReport
from txmq_lib.service import rounds
from txmq_lib.service.latch import CountDownLatch
from txmq_lib.service.rounds import Listeners, Step, run_round
from txmq_lib.service.thread import PeriodicService, ServiceThread

LONG_S = 60.0
SOON_S = 5.0


class Recorded(ServiceThread):
    """A thread that runs until stopped and waits in between."""

    def __init__(self, *, is_daemon: bool = False) -> None:
        super().__init__("recorded", is_daemon=is_daemon)
        self.interrupts = 0
        self.wait_ends = 0

    def on_interrupt(self) -> None:
        self.interrupts += 1

    def on_wait_end(self) -> None:
        self.wait_ends += 1


class Meddled(CountDownLatch):
    """A latch that lets something happen right before it is reset, and right after a wait for it."""

    def __init__(self, *, before_reset=None, after_wait=None) -> None:
        super().__init__(1)
        self.before_reset = before_reset
        self.after_wait = after_wait

    def reset(self) -> None:
        if self.before_reset is not None:
            self.before_reset()
        super().reset()

    def wait(self, seconds: float) -> bool:
        reached = super().wait(seconds)
        if self.after_wait is not None:
            self.after_wait()
        return reached


def seconds_of(waiting) -> float:
    begun = time.monotonic()
    waiting()
    return time.monotonic() - begun


# --- the latch


def test_a_latch_refuses_a_count_below_zero():  # case 98
    with pytest.raises(ValueError, match="count < 0"):
        CountDownLatch(-1)


def test_a_latch_tells_its_count():  # case 99
    latch = CountDownLatch(10)
    assert latch.count == 10
    assert "[Count = 10]" in repr(latch)


def test_a_wait_ends_without_success_after_its_time_and_with_success_at_zero():  # case 100
    latch = CountDownLatch(1)
    assert latch.wait(0.01) is False
    latch.count_down()
    assert latch.wait(0.01) is True


def test_a_count_comes_down_one_by_one_and_never_below_zero():  # cases 101, 102
    latch = CountDownLatch(2)
    seen = [latch.count]
    for _ in range(3):
        latch.count_down()
        seen.append(latch.count)
    assert seen == [2, 1, 0, 0]


def test_a_reset_brings_the_first_count_back():  # case 102
    latch = CountDownLatch(2)
    latch.count_down()
    latch.reset()
    assert latch.count == 2


# --- the life cycle


@pytest.mark.parametrize("is_daemon", [False, True])
@pytest.mark.parametrize("interrupt", [False, True])
def test_shutdown_stops_and_notifies_once_and_the_second_is_nothing(is_daemon, interrupt):  # case 94
    thread = Recorded(is_daemon=is_daemon)
    thread.start()
    thread.shutdown(interrupt=interrupt)
    state = (thread.is_stopped, thread.has_notified, thread.latch.count, thread.interrupts)
    assert state == (True, True, 0, int(interrupt))
    thread.shutdown(interrupt=interrupt)
    assert thread.interrupts == int(interrupt)


def test_make_stop_sets_the_flag_and_wakes_nobody():  # case 95
    thread = Recorded()
    thread.make_stop()
    assert (thread.is_stopped, thread.has_notified, thread.latch.count) == (True, False, 1)


def test_stop_sets_the_flag_and_wakes_and_joins_nobody():
    let_go = Event()
    thread = PeriodicService("busy", let_go.wait, interval_s=0)
    thread.start()
    assert seconds_of(thread.stop) < SOON_S
    assert thread.is_stopped
    assert thread.is_alive or let_go.is_set()
    let_go.set()
    assert thread.shutdown()


def test_start_twice_is_one_thread():
    calls = []
    thread = PeriodicService("once", lambda: calls.append(1), interval_s=LONG_S, first_delay_s=0)
    thread.start()
    first = thread._thread
    thread.start()
    assert thread._thread is first
    thread.shutdown()


def test_wakeup_notifies_and_counts_down():  # case 96
    thread = Recorded()
    thread.wakeup()
    assert (thread.has_notified, thread.latch.count) == (True, 0)


def test_a_wait_after_a_wakeup_ends_at_once_and_leaves_the_latch_as_it_is():  # case 97
    thread = Recorded()
    thread.wait_for_running(0.01)
    assert (thread.has_notified, thread.latch.count) == (False, 1)
    thread.wakeup()
    assert (thread.has_notified, thread.latch.count) == (True, 0)
    assert seconds_of(lambda: thread.wait_for_running(LONG_S)) < SOON_S
    assert (thread.has_notified, thread.latch.count) == (False, 0)
    thread.wait_for_running(0.01)
    assert (thread.has_notified, thread.latch.count) == (False, 1)
    assert thread.wait_ends == 3


# --- where a wakeup may come


def test_a_wakeup_while_waiting_ends_the_wait():
    thread = Recorded()
    waiter = Thread(target=thread.wait_for_running, args=(LONG_S,))
    waiter.start()
    while thread.latch.count != 1:
        time.sleep(0.001)
    thread.wakeup()
    waiter.join(SOON_S)
    assert not waiter.is_alive()


def test_a_wakeup_after_the_wait_and_before_the_flag_is_cleared_is_answered_by_the_round_that_begins():
    rounds = []
    thread = Recorded()
    thread.latch = Meddled(after_wait=thread.wakeup)
    thread.wait_for_running(0.01)
    rounds.append("begun after the wakeup")
    assert (rounds, thread.has_notified) == (["begun after the wakeup"], False)


def test_a_wakeup_during_the_work_ends_the_next_wait_at_once():
    woken = []

    def work() -> None:
        if not woken:
            woken.append(service.wakeup())
        else:
            service.make_stop()

    service = PeriodicService("working", work, interval_s=LONG_S, first_delay_s=0)
    service.start()
    service._thread.join(SOON_S)
    assert not service.is_alive


def test_a_wakeup_between_the_test_of_the_flag_and_the_reset_of_the_latch_is_not_lost():  # R113
    thread = Recorded()
    helpers = []

    def wake_in_between() -> None:
        helper = Thread(target=thread.wakeup)
        helper.start()
        helper.join(0.2)  # with the original it gets through here, and the reset undoes it
        helpers.append(helper)

    thread.latch = Meddled(before_reset=wake_in_between)
    assert seconds_of(lambda: thread.wait_for_running(LONG_S)) < SOON_S
    helpers[0].join(SOON_S)
    assert not helpers[0].is_alive()


def test_ten_thousand_wakeups_from_several_threads_around_the_wait_are_each_answered():
    """Each waker wakes only when the round that answers its last wakeup has begun, so that a lost one stands still."""
    wakers, each = 4, 2_500
    begun = 0

    def work() -> None:
        nonlocal begun
        begun += 1

    service = PeriodicService("woken", work, interval_s=LONG_S)
    service.latch = Meddled(before_reset=lambda: time.sleep(0))  # others run in the very window of R113
    start = Barrier(wakers + 1)
    lost = []

    def wake() -> None:
        start.wait()
        for _ in range(each):
            before = begun
            service.wakeup()
            limit = time.monotonic() + SOON_S
            while begun == before:
                if time.monotonic() > limit:
                    lost.append(before)
                    return
                time.sleep(0)

    threads = [Thread(target=wake) for _ in range(wakers)]
    for thread in threads:
        thread.start()
    service.start()
    start.wait()
    for thread in threads:
        thread.join()
    service.shutdown()
    assert lost == []
    assert 0 < begun <= wakers * each


def test_work_that_raises_ends_the_thread_and_whoever_started_it_is_told():
    lost: SimpleQueue[Exception] = SimpleQueue()

    def work() -> None:
        raise ConnectionRefusedError("the JVM is gone")

    service = PeriodicService("lost", work, interval_s=LONG_S, first_delay_s=0, on_failure=lost.put)
    service.start()
    assert str(lost.get(timeout=SOON_S)) == "the JVM is gone"
    assert service.shutdown()


# --- rounds at their times


def test_the_first_round_comes_one_interval_after_the_start_unless_woken():
    begun = Event()
    service = PeriodicService("waiting", begun.set, interval_s=LONG_S)
    service.start()
    assert not begun.wait(0.1)
    service.wakeup()
    assert begun.wait(SOON_S)
    assert service.shutdown()


def test_a_stop_during_the_wait_begins_no_round():
    calls = []
    service = PeriodicService("stopped", lambda: calls.append(1), interval_s=LONG_S)
    service.start()
    assert service.shutdown()
    assert calls == []


def test_an_interrupt_is_told_to_the_work_and_the_join_waits_for_its_end():
    let_go = Event()
    ended = []

    def work() -> None:
        let_go.wait(LONG_S)
        ended.append(1)

    service = PeriodicService("busy", work, interval_s=LONG_S, first_delay_s=0, interrupt=let_go.set)
    service.start()
    time.sleep(0.05)
    assert seconds_of(lambda: service.shutdown(interrupt=True)) < SOON_S
    assert ended == [1]


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [
        (100.0, 100.0, 105.0),  # begun in time and over at once
        (100.0, 103.0, 105.0),  # over within the interval
        (100.0, 105.0, 110.0),  # just missed the next: dropped
        (100.0, 117.0, 120.0),  # missed three: dropped, the rate stays
        (100.0, 98.0, 100.0),  # woken before its time
    ],
)
def test_at_a_fixed_rate_missed_rounds_are_dropped_and_the_rate_stays(due, now, expected):
    service = PeriodicService("rate", lambda: None, interval_s=5.0, is_at_fixed_rate=True)
    assert service._next_due(due, now) == expected


def test_else_an_interval_lies_between_the_end_of_a_round_and_the_next():
    service = PeriodicService("delay", lambda: None, interval_s=5.0)
    assert service._next_due(100.0, 117.0) == 122.0


def failing_at_first(times: int, runs: list[float]) -> Step:
    def run() -> PassReport:
        runs.append(time.monotonic())
        if len(runs) <= times:
            raise ConnectionRefusedError("down for a moment")
        return PassReport("land", 0, {}, {})

    return Step("land", run)


@pytest.mark.parametrize("is_at_fixed_rate", [False, True])
def test_a_step_that_failed_is_tried_again_after_its_pauses_however_long_the_interval_is(monkeypatch, is_at_fixed_rate):
    monkeypatch.setattr(rounds, "FIRST_BACKOFF_S", 0.1)
    runs: list[float] = []
    pauses: list[float] = []
    done = Event()
    listeners = Listeners(
        report=lambda step, report: done.set(),
        failure=lambda step, error, pause_s: pauses.append(pause_s),
        lost=lambda name, error: None,
    )
    steps = [failing_at_first(3, runs)]
    service = PeriodicService(
        "retrying",
        lambda: run_round(steps, listeners, is_stopped=lambda: service.is_stopped),
        interval_s=LONG_S,
        first_delay_s=0,
        is_at_fixed_rate=is_at_fixed_rate,
    )
    service.start()
    ended = done.wait(SOON_S)
    time.sleep(0.3)  # what succeeded waits for its interval again
    assert service.shutdown()
    assert ended
    assert pauses == [0.1, 0.2, 0.4]
    assert [later - sooner >= pause for sooner, later, pause in zip(runs, runs[1:], pauses, strict=False)] == [True] * 3
    assert len(runs) == 4


def test_a_step_without_work_is_not_run_nor_told_and_one_that_cannot_say_has_failed():
    reported: list[str] = []
    failed: list[str] = []

    def lost() -> bool:
        raise ConnectionRefusedError("down")

    listeners = Listeners(
        report=lambda step, report: reported.append(step),
        failure=lambda step, error, pause_s: failed.append(step.name),
        lost=lambda name, error: None,
    )
    steps = [
        Step("maintain", lambda: PassReport("maintain", 1, {}, {}), has_work=lambda: False),
        Step("unsure", lambda: PassReport("maintain", 1, {}, {}), has_work=lost),
        Step("audit", lambda: PassReport("audit", 1, {}, {})),
    ]
    run_round(steps, listeners, is_stopped=lambda: False)
    assert (reported, failed) == (["audit"], ["unsure"])


def test_what_others_have_done_since_it_failed_is_well_again_and_waits_for_its_interval():
    reported: list[str] = []
    listeners = Listeners(
        report=lambda step, report: reported.append(step),
        failure=lambda step, error, pause_s: None,
        lost=lambda name, error: None,
    )
    step = Step("maintain", lambda: PassReport("maintain", 1, {}, {}), has_work=lambda: False, failures=2)
    assert run_round([step], listeners, is_stopped=lambda: False) is None
    assert (reported, step.failures) == (["maintain"], 0)


def test_what_has_left_more_of_the_same_goes_on_without_waiting_for_its_interval():
    left = [True, True, False]
    runs: list[float] = []

    def land() -> PassReport:
        runs.append(time.monotonic())
        return PassReport("land", len(runs), {}, {}, has_more=left[len(runs) - 1])

    done = Event()
    listeners = Listeners(
        report=lambda step, report: None if report.has_more else done.set(),
        failure=lambda step, error, pause_s: None,
        lost=lambda name, error: None,
    )
    steps = [Step("land", land)]
    service = PeriodicService(
        "draining",
        lambda: run_round(steps, listeners, is_stopped=lambda: service.is_stopped),
        interval_s=LONG_S,
        first_delay_s=0,
    )
    service.start()
    ended = done.wait(SOON_S)
    time.sleep(0.3)  # nothing is left: the interval counts again
    assert service.shutdown()
    assert ended
    assert len(runs) == 3
