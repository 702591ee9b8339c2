"""`Consumer.wakeup`: a poll that waits is ended from elsewhere, once (Java's KafkaConsumer.wakeup). Mixed into `Consumer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from oncelog.client.cluster.cluster import Cluster
from oncelog.errors import WakeupError

Taking = Callable[[], tuple[list[Any], bool]]


class Waking:
    """Mixed into a consumer."""

    # what the consumer has
    _cluster: Cluster
    _is_in_listener: bool
    _poll_until: Callable[[int, Taking], Any]

    is_woken: bool = False
    """Whether the next poll raises WakeupError; set by any thread."""
    _waiting: asyncio.Timeout | None = None

    def wakeup(self) -> None:
        """Let the `poll`, `poll_arrow` or `async for` that waits raise WakeupError, or the next one where none waits: once,
        however often this was called before. No record is lost, the next poll goes on.

        Any thread may call it, and a signal handler. A rebalance listener that runs is not ended, nor are other calls
        (`commit`, `position` ...), which Java's ends, too.
        """
        self.is_woken = True
        self._cluster.call_soon(self._end_waiting)

    def _end_waiting(self) -> None:
        waiting = self._waiting
        if self.is_woken and not self._is_in_listener and waiting is not None and not waiting.expired():
            waiting.reschedule(0)  # long ago: the task is cancelled where it waits

    async def _poll(self, timeout_ms: int, take: Taking) -> list[Any] | None:
        waiting = asyncio.timeout(None)
        try:
            async with waiting:
                self._waiting = waiting
                taken: list[Any] | None = await self._poll_until(timeout_ms, take)
                return taken
        except TimeoutError:
            if waiting.expired():
                self._raise_if_woken()
            raise
        finally:
            self._waiting = None

    def _raise_if_woken(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise WakeupError("wakeup() was called") from None
