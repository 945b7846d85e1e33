"""A latch that can be reset, as RocketMQ's CountDownLatch2 (R115; common/.../CountDownLatch2.java)."""

from __future__ import annotations

from threading import Condition


class CountDownLatch:
    """Lets threads wait until a count has come down to 0; `reset` brings the first count back.

    ValueError for a count below 0.
    """

    def __init__(self, count: int) -> None:
        if count < 0:
            raise ValueError("count < 0")
        self._first = self._count = count
        self._changed = Condition()

    @property
    def count(self) -> int:
        """What is left to count down."""
        return self._count

    def count_down(self) -> None:
        """One less, never below 0; at 0 everybody who waits goes on."""
        with self._changed:
            if self._count > 0:
                self._count -= 1
                if self._count == 0:
                    self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait for 0, `seconds` at most; whether it was reached."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)

    def reset(self) -> None:
        """The first count again."""
        with self._changed:
            self._count = self._first

    def __repr__(self) -> str:
        return f"CountDownLatch[Count = {self._count}]"
