"""Waiting between attempts: exponential, bounded, with jitter; and deadlines that say what was waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from oncelog.errors import KafkaError, RequestTimedOut
from oncelog.host.randomness import Random


class Backoff:
    """Grows from `first_ms` to `max_ms`, each wait 20 % more or less, so that clients do not retry in step."""

    def __init__(self, first_ms: float, max_ms: float, random: Random) -> None:
        self._first_ms, self._max_ms, self._random = first_ms, max_ms, random
        self._attempt_count = 0

    def next_ms(self) -> float:
        """How long to wait before the next attempt."""
        grown = min(self._first_ms * float(2 ** min(self._attempt_count, 20)), self._max_ms)
        self._attempt_count += 1
        return grown * self._random.uniform(0.8, 1.2)

    def reset(self) -> None:
        """It worked: begin small again."""
        self._attempt_count = 0


class Deadline:
    """When a call must be over: never later than the one that it is a step of (`one_deadline`). `what` is named in the error,
    beside the last thing that went wrong."""

    def __init__(self, timeout_ms: float, what: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout_ms, self._what = timeout_ms, what
        self._ends = self._loop.time() + timeout_ms / 1000
        self._is_of_steps = False
        whole = _WHOLE.get()
        if whole is not None and whole._is_of_steps and whole._ends < self._ends:
            self.timeout_ms, self._ends = whole.timeout_ms, whole._ends

    @property
    def left_ms(self) -> int:
        """Milliseconds that are left, at least 0."""
        return max(int((self._ends - self._loop.time()) * 1000), 0)

    def request_timeout_ms(self, request_timeout_ms: int) -> int:
        """A request's timeout within this deadline."""
        return max(min(request_timeout_ms, self.left_ms), 1)

    async def wait(self, backoff: Backoff, last_error: KafkaError | None) -> None:
        """Wait for the next attempt. Raises RequestTimedOut when there is no time for one."""
        pause_ms = backoff.next_ms()
        if pause_ms >= self.left_ms:
            raise self.passed(last_error)
        await asyncio.sleep(pause_ms / 1000)

    def passed(self, last_error: BaseException | None = None) -> RequestTimedOut:
        """The error of a deadline that has passed."""
        because = f"; last error: {last_error}" if last_error else ""
        error = RequestTimedOut(f"{self._what}: not done within {self.timeout_ms:g} ms{because}")
        error.__cause__ = last_error
        return error


_WHOLE: ContextVar[Deadline | None] = ContextVar("the deadline of a call of several steps", default=None)


@contextmanager
def one_deadline(timeout_ms: float, what: str) -> Iterator[Deadline]:
    """Around a call's steps, each of which has a deadline of its own: without it their times would add up."""
    deadline = Deadline(timeout_ms, what)
    deadline._is_of_steps = True
    token = _WHOLE.set(deadline)
    try:
        yield deadline
    finally:
        deadline._is_of_steps = False  # tasks that began meanwhile have it in their context, and may live on
        _WHOLE.reset(token)
