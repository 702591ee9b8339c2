"""The door to another thread, for work that would hold the event loop: cleaning a log, removing large files.

The interpreter runs one thread at a time, so a busy thread is felt by the loop although it is another one. Work is
therefore done in small pieces with a `Pace` called after each: it sleeps for a moment once a slice of time is used up
(releasing the interpreter without sleeping would not do: the same thread mostly takes it again before the loop wakes).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

SLICE_S = 0.001  # how long the loop may have to wait for the interpreter
REST_S = 0.0002


class WorkCancelled(Exception):
    """Raised by a `Pace` in the worker's thread when nobody waits for the work any more."""


class Pace(Protocol):
    """Call it after each piece of work of a millisecond or less."""

    def __call__(self, size_bytes: int) -> None:
        """`size_bytes` were read or written since the last call. Raises WorkCancelled."""
        ...


class Worker(Protocol):
    """Runs work beside the loop."""

    async def run(self, work: Callable[[Pace], T], *, bytes_per_second: float = float("inf")) -> T:
        """What `work` returns or raises. When the caller is cancelled the work is, too, and has ended on return."""
        ...


class InlineWorker:
    """Runs work at once, in the loop: for simulations, which have one thread."""

    async def run(self, work: Callable[[Pace], T], *, bytes_per_second: float = float("inf")) -> T:  # noqa: ARG002
        """Run it."""
        return work(lambda size_bytes: None)  # noqa: ARG005


class _ThreadPace:
    """Rests after each slice, and longer where a rate is asked for."""

    def __init__(self, bytes_per_second: float) -> None:
        self.is_cancelled = False
        self._bytes_per_second = bytes_per_second
        self._began = self._slice_began = time.monotonic()
        self._size_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        if self.is_cancelled:
            raise WorkCancelled
        self._size_bytes += size_bytes
        now = time.monotonic()
        if now - self._slice_began >= SLICE_S:
            ahead_s = self._size_bytes / self._bytes_per_second - (now - self._began)
            time.sleep(min(max(ahead_s, REST_S), 1.0))  # in pieces: it may be cancelled meanwhile
            self._slice_began = time.monotonic()


class ThreadWorker:
    """Each piece of work has a thread of its own: it is rare, and much longer than the start of a thread."""

    async def run(self, work: Callable[[Pace], T], *, bytes_per_second: float = float("inf")) -> T:
        """Run it in a thread."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        pace = _ThreadPace(bytes_per_second)

        def conclude(result: T | None, error: BaseException | None) -> None:
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]
            else:
                done.set_exception(error)

        def run() -> None:
            result: T | None = None
            failed: BaseException | None = None
            try:
                result = work(pace)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the work is awaited
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(conclude, result, failed)

        threading.Thread(target=run, name="oncelog-work", daemon=True).start()
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            pace.is_cancelled = True
            await asyncio.wait((done,))
            done.exception()  # WorkCancelled, or a result that came too late
            raise
