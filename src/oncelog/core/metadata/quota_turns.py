"""Whose turn it is to read where a quota is used up: nobody waits for ever, and the rate stays the quota's.

Apache Kafka answers empty as long as a reply would be over the bound. So a batch larger than all windows together is never
read, nor a long lag beside others who always take the little that is left. Here, who has been refused for as long as the
windows are is served next, the one refused first before the others, and nobody is served until that is paid back.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

from oncelog.lazy_dataclass import dataclass

READERS_MAX = 1_000  # who is refused beyond that is served by the rate alone, until there is room
PRESENT_FOR_MS = 1_000  # behind the time it was told to come again: for so long the others let it go first
FORGET_AFTER_MS = 60_000  # behind that time: it is gone


@dataclass(slots=True)
class _Waiting:
    since_ms: int
    expected_ms: int


class Turns:
    """The readers under one quota that were refused, the first refused first; and what all have read ahead of its rate."""

    __slots__ = ("_ahead_bytes", "_is_paying", "_last_ms", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, _Waiting] = {}
        self._ahead_bytes = 0.0
        self._is_paying = False  # something was served out of turn: until it is paid back, nobody else is served
        self._last_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_ms(self, reader: Hashable, size_bytes: float, over_ms: int, per_second: float, patience_ms: int) -> int:
        """For how long a reader of so many bytes has to wait at the time of the last `pass_time`; 0 where it is served now.

        `over_ms`: for how long it would have to by the rate. `patience_ms`: after that time it is served all the same; it
        comes again within it, as nobody can tell before what its next reply will be.
        """
        now_ms = self._last_ms
        debt_ms = math.ceil(self._ahead_bytes / per_second * 1000) if self._is_paying else 0
        if not over_ms and not debt_ms:
            self._waiting.pop(reader, None)
            self._ahead_bytes = min(self._ahead_bytes + size_bytes, per_second * patience_ms / 1000)
            return 0
        waiting = self._waiting.get(reader)
        if waiting is None:
            waiting = _Waiting(now_ms, now_ms)
            if len(self._waiting) < READERS_MAX or self._forgot_some():
                self._waiting[reader] = waiting
        due_in_ms = max(waiting.since_ms + patience_ms - now_ms, debt_ms)
        if due_in_ms <= 0:
            if self._is_first(reader):
                del self._waiting[reader]
                self._ahead_bytes += size_bytes
                self._is_paying = True
                return 0
            due_in_ms = PRESENT_FOR_MS
        wait_ms = max(min(max(over_ms, debt_ms), due_in_ms, patience_ms), 1)
        waiting.expected_ms = now_ms + wait_ms
        return wait_ms

    def pass_time(self, per_second: float, now_ms: int) -> None:
        """Pay back at the quota's rate. A clock that was set back would let all wait until it has caught up: it does not."""
        passed_ms = now_ms - self._last_ms
        self._last_ms = now_ms
        if passed_ms < 0:
            for waiting in self._waiting.values():
                waiting.since_ms += passed_ms
                waiting.expected_ms += passed_ms
            return
        self._ahead_bytes = max(self._ahead_bytes - passed_ms * per_second / 1000, 0.0)
        self._is_paying = self._is_paying and self._ahead_bytes > 0

    def _is_first(self, reader: Hashable) -> bool:
        """Whether nobody who was refused before is still there. Who is not remembered comes last."""
        for each, waiting in self._waiting.items():
            if each == reader:
                return True
            if self._last_ms <= waiting.expected_ms + PRESENT_FOR_MS:
                return False
        return False

    def _forgot_some(self) -> bool:
        late_ms = self._last_ms - FORGET_AFTER_MS
        gone = [each for each, waiting in self._waiting.items() if waiting.expected_ms < late_ms]
        for each in gone:
            del self._waiting[each]
        return bool(gone)
