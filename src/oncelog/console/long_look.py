"""What takes long to read where there are tens of thousands of partitions: read once for all pages, beside them.

A page waits for a moment. Then it gets what was read before, with its age; the first time it is told how far reading is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from oncelog.errors import KafkaError, OncelogError
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

T = TypeVar("T")
PATIENCE_S = 2.0
ERROR_KEPT_S = 30.0


class BeingRead(OncelogError):
    """Nothing is known yet; it is being read, and the message says how far it is."""


@dataclass
class Progress:
    """How far a look is; `total` is 0 while that is not known."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Kept(Generic[T]):
    """What a look found."""

    value: T
    seen_s: float

    @property
    def age_ms(self) -> int:
        """Since when it is known."""
        return int((time.monotonic() - self.seen_s) * 1000)


class LongLook(Generic[T]):
    """One thing that is read for whoever asks. `what` it is, as in "the list of topics"; `unit`: what is counted, if anything."""

    def __init__(self, tasks: Tasks, what: str, unit: str = "") -> None:
        self._tasks, self._what, self._unit = tasks, what, unit
        self._kept: Kept[T] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._progress = Progress()
        self._waiting = 0
        self._untold: tuple[float, Exception] | None = None  # an error that nobody waited for

    async def get(self, read: Callable[[Progress], Awaitable[T]], good_for_s: Callable[[T], float]) -> Kept[T]:
        """What is known: not older than it is good for, or as old as it is where reading takes longer than a moment. What is
        good for no time is waited for.

        Raises BeingRead where nothing is known yet, and the errors of `read`.
        """
        kept = self._kept
        if kept is not None and time.monotonic() - kept.seen_s < good_for_s(kept.value):
            return kept
        untold, self._untold = self._untold, None
        if untold is not None and time.monotonic() - untold[0] < ERROR_KEPT_S:
            raise untold[1]
        task = self._reading
        if task is None:
            task = self._reading = self._tasks.start(self._read(read), name="oncelog-console-look")
        is_waited_for = kept is not None and not good_for_s(kept.value)
        self._waiting += 1
        try:
            await asyncio.wait((task,), timeout=None if is_waited_for else PATIENCE_S)
        finally:
            self._waiting -= 1
        if task.done() and not task.cancelled():
            task.result()
        if self._kept is None:
            raise BeingRead(self._told)
        return self._kept

    async def _read(self, read: Callable[[Progress], Awaitable[T]]) -> None:
        self._progress = Progress()
        try:
            self._kept = Kept(await read(self._progress), time.monotonic())
        except (KafkaError, OncelogError, OSError) as error:
            if not self._waiting:
                self._untold = time.monotonic(), error
            raise
        finally:
            self._reading = None

    @property
    def _told(self) -> str:
        progress = self._progress
        if not progress.total:
            return f"{self._what} is being read"
        return f"{self._what} is being read: {progress.done:,} of {progress.total:,} {self._unit}"
