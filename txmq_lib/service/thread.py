"""A thread that waits, is woken, is stopped: RocketMQ's ServiceThread (R112 to R114) without its lost wakeup (R113)."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread, current_thread

from txmq_lib.service.latch import CountDownLatch

JOIN_SECONDS = 90.0


class ServiceThread:
    """A thread with RocketMQ's life cycle; what it does is `run`, of whoever derives from it.

    `has_notified` is the flag of a wakeup that no wait has seen yet.
    """

    def __init__(self, name: str, *, is_daemon: bool = False) -> None:
        self.name = name
        self.is_stopped = False
        self.has_notified = False
        self.latch = CountDownLatch(1)
        self._is_daemon = is_daemon
        self._is_started = False
        self._thread: Thread | None = None
        # Held from the test of the flag to the reset of the latch: a wakeup comes before both or after both (R113).
        self._notifying = Lock()

    def run(self) -> None:
        """What the thread does; it should end soon after `is_stopped`."""

    def on_wait_end(self) -> None:
        """Called after every wait."""

    def on_interrupt(self) -> None:
        """Called when the thread is to leave what it does at once."""

    def start(self) -> None:
        """Start the thread; nothing where it is started (R114)."""
        if self._is_started:
            return
        self._is_started = True
        self.is_stopped = False
        self._thread = Thread(target=self.run, name=self.name, daemon=self._is_daemon)
        self._thread.start()

    def shutdown(self, *, interrupt: bool = False) -> bool:
        """Stop the thread and join it for up to 90 s, a daemon not; whether it has ended. Nothing the second time."""
        if self._is_started:
            self._is_started = False
            self.stop(interrupt=interrupt)
            if self._thread is not None and not self._is_daemon and self._thread is not current_thread():
                self._thread.join(JOIN_SECONDS)
        return not self.is_alive

    def stop(self, *, interrupt: bool = False) -> None:
        """Set the flag and wake the thread; wait for nothing."""
        self.make_stop()
        self.wakeup()
        if interrupt:
            self.on_interrupt()

    def make_stop(self) -> None:
        """Set the flag only: the thread ends when it looks."""
        self.is_stopped = True

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def wakeup(self) -> None:
        """End the wait, or the next one; several before it are one."""
        with self._notifying:
            if not self.has_notified:
                self.has_notified = True
                self.latch.count_down()

    def wait_for_running(self, seconds: float) -> None:
        """Wait for a wakeup, `seconds` at most; one that came since the last wait ends this one at once (R112)."""
        with self._notifying:
            is_woken = self.has_notified
            if is_woken:
                self.has_notified = False
            else:
                self.latch.reset()
        if not is_woken:
            self.latch.wait(seconds)
            # A wakeup that comes right here is cleared too: the round it asks for begins now.
            self.has_notified = False
        self.on_wait_end()


class PeriodicService(ServiceThread):
    """Calls `work` again and again, never twice at once.

    work           tells when, in monotonic seconds, it wants the next call if none is due before; None: when one is due
    interval_s     seconds from the end of a call to the next; at a fixed rate from due time to due time, those missed
                   are dropped
    first_delay_s  seconds before the first call, None: one interval
    interrupt      leaves what `work` is doing
    on_failure     told what `work` raised: the thread ends with it
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], float | None],
        *,
        interval_s: float,
        first_delay_s: float | None = None,
        is_at_fixed_rate: bool = False,
        interrupt: Callable[[], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        super().__init__(name)
        self._work = work
        self._interval_s = interval_s
        self._first_delay_s = interval_s if first_delay_s is None else first_delay_s
        self._is_at_fixed_rate = is_at_fixed_rate
        self._interrupt = interrupt
        self._on_failure = on_failure

    def on_interrupt(self) -> None:
        """Leave what `work` is doing."""
        if self._interrupt is not None:
            self._interrupt()

    def run(self) -> None:
        """Wait first, then work, until stopped; a stop during the wait begins no call (the original makes one more)."""
        try:
            self._run_rounds()
        except Exception as failure:
            if self._on_failure is None:
                raise
            self._on_failure(failure)

    def _run_rounds(self) -> None:
        due = time.monotonic() + self._first_delay_s
        wake_at: float | None = None
        while not self.is_stopped:
            until = due if wake_at is None else min(due, wake_at)
            self.wait_for_running(max(0.0, until - time.monotonic()))
            if self.is_stopped:
                return
            wake_at = self._work()
            due = self._next_due(due, time.monotonic())

    def _next_due(self, due: float, now: float) -> float:
        if not self._is_at_fixed_rate:
            return now + self._interval_s
        if due > now:  # called before its time
            return due
        return due + self._interval_s * (1 + (now - due) // self._interval_s)
