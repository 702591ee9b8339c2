"""The door to wall-clock time. Monotonic time is the running loop's own `time()`."""

from __future__ import annotations

from time import time_ns as time_ns  # for hot loops, too, that know that their clock is the machine's
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time, as record timestamps and logged transaction starts need it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...


class RealClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time_ns() // 1_000_000
