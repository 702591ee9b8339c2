"""What takes long to read where there are tens of thousands of partitions: read once for all pages, beside them.

A page waits for a moment. Then it gets what was read before, with its age; the first time it is told how far reading is.
Where nothing was heard from the brokers for some seconds it is told that, whatever the requests under way still wait for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Generic, TypeVar

from oncelog.core.ages import clock_text
from oncelog.errors import KafkaError, Network, OncelogError, RequestTimedOut
from oncelog.host.clock import RealClock
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

T = TypeVar("T")
PATIENCE_S = 2.0
SILENT_S = 5.0
ERROR_KEPT_S = 5.0  # an error of before says nothing of brokers that have been well since


class BeingRead(OncelogError):
    """Nothing is known yet; it is being read, and the message says how far it is."""


class NobodyAnswers(RequestTimedOut, retriable=True):
    """Nothing was heard from the brokers for `SILENT_S`, and they are asked on."""


@dataclass
class Progress:
    """How far a look is; `total` is 0 while that is not known. `heard_s`: when anything was answered last."""

    done: int = 0
    total: int = 0
    heard_s: float = field(default_factory=time.monotonic)

    def advance(self, count: int, *, is_heard: bool) -> None:
        """So many more are done. `is_heard`: somebody answered for one of them."""
        self.done += count
        if is_heard:
            self.heard_s = time.monotonic()


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
        self._begun_s = 0.0
        self._failed: tuple[float, float] | None = (
            None  # when a reading ended without an answer, and the last one before
        )
        self._untold: tuple[float, Exception] | None = None  # an error that nobody waited for

    async def get(self, read: Callable[[Progress], Awaitable[T]], good_for_s: Callable[[T], float]) -> Kept[T]:
        """What is known: not older than it is good for, or as old as it is where reading takes longer than a moment. What is
        good for no time is waited for.

        Raises BeingRead where nothing is known yet, NobodyAnswers where nothing is heard, and the errors of `read`.
        """
        kept = self._kept
        if kept is not None and time.monotonic() - kept.seen_s < good_for_s(kept.value):
            return kept
        untold, self._untold = self._untold, None
        if untold is not None and time.monotonic() - untold[0] < ERROR_KEPT_S:
            raise untold[1]
        task = self._reading
        if task is None:
            self._begin()  # before the task's first step: whoever waits asks what has been heard in it
            task = self._reading = self._tasks.start(self._read(read), name="oncelog-console-look")
        is_waited_for = kept is not None and not good_for_s(kept.value)
        self._waiting += 1
        try:
            is_silent = await self._waited(task, has_patience=is_waited_for)
        finally:
            self._waiting -= 1
        if task.done() and not task.cancelled():
            task.result()
        elif is_silent:
            raise NobodyAnswers(self._silence)
        if self._kept is None:
            raise BeingRead(self._told)
        return self._kept

    async def _waited(self, task: asyncio.Task[None], *, has_patience: bool) -> bool:
        """Until it is done, nothing is heard for too long (then it is true) or, not `has_patience`, a moment is over."""
        ends_s = None if has_patience else time.monotonic() + PATIENCE_S
        while True:
            until_s = self._silent_at_s if ends_s is None else min(ends_s, self._silent_at_s)
            left_s = max(0.0, until_s - time.monotonic())
            await asyncio.wait((task,), timeout=left_s)
            if task.done() or not left_s:
                return self._silent_at_s <= until_s

    @property
    def _silent_at_s(self) -> float:
        """When it is to be said that nobody answers. A reading that has just begun has a moment, whatever was before."""
        return max(self._progress.heard_s + SILENT_S, self._begun_s + PATIENCE_S)

    @property
    def _silence(self) -> str:
        silent_s = time.monotonic() - self._progress.heard_s
        at = "" if self._kept is None else f", which was last read at {self._read_at(self._kept)} UTC"
        return f"no broker has answered for {silent_s:.0f} s: {self._what} is asked for{at}"

    @staticmethod
    def _read_at(kept: Kept[T]) -> str:
        return clock_text(RealClock().now_ms() - kept.age_ms)

    def _begin(self) -> None:
        self._progress, self._begun_s = Progress(), time.monotonic()
        if self._failed is not None and self._begun_s - self._failed[0] < ERROR_KEPT_S:
            self._progress.heard_s = self._failed[1]
        self._failed = None

    async def _read(self, read: Callable[[Progress], Awaitable[T]]) -> None:
        try:
            self._kept = Kept(await read(self._progress), time.monotonic())
        except (KafkaError, OncelogError, OSError) as error:
            if isinstance(error, RequestTimedOut | Network | OSError):
                self._failed = time.monotonic(), self._progress.heard_s
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
