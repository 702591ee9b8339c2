"""Time that a test moves forward: an event loop and a wall clock that are ahead of the machine's by the same amount.

The broker reads its time from these two doors only (the loop's `time()` for sessions and waits, the Clock for timestamps,
transactions' timeouts and retention), so whatever is due by then happens as if it had been waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from oncelog.host.clock import RealClock


class MovedTime:
    """How far a broker is ahead, in milliseconds; it never goes back. Makes its loop and is its Clock."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms
        self._real = RealClock()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by the moved clock."""
        return self._real.now_ms() + self.ahead_ms

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that lives in this time."""
        return _Loop(self)

    def advance(self, loop: asyncio.AbstractEventLoop, duration_ms: int, timeout_s: float) -> None:
        """Move it, from another thread than the loop's. On return all timers that became due have been called once.

        Raises TimeoutError where the loop does not run.
        """
        moved = threading.Event()
        loop.call_soon_threadsafe(self._advance, loop, duration_ms, moved.set)
        if not moved.wait(timeout_s):
            raise TimeoutError(f"the broker's time was not moved within {timeout_s:g} s: its loop does not run")

    def _advance(self, loop: asyncio.AbstractEventLoop, duration_ms: int, then: Callable[[], None]) -> None:
        self.ahead_ms += duration_ms
        loop.call_later(0, then)  # behind what is due: timers are called in the order of their times


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, moved: MovedTime) -> None:
        self._moved = moved
        super().__init__()

    def time(self) -> float:
        return super().time() + self._moved.ahead_ms / 1000
