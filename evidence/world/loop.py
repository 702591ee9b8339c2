"""A deterministic asyncio loop: time moves only when everybody waits; the order of ready callbacks comes from the seed.

Every callback belongs to the process in whose context it was made (`PROCESS`). A process that was killed runs nothing any
more, not even a `finally`; one that is paused runs later. The loop overrides `_run_once`, a private method of asyncio's
loop: `test_loop.py` pins that one seed gives one trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any


class Deadlock(AssertionError):
    """Every task waits and no timer is set: nothing can ever happen again."""


class Process:
    """One simulated operating-system process: it owns every task and callback that starts in its context."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.loop, self.name = loop, name
        self.host = "127.0.0.1"  # where its connections come from
        self.is_dead = False
        self.is_paused = False
        self.clock_offset_ms = 0
        self.clock_drift = 0.0  # the share by which the clock runs fast
        self.messages_to_itself = 0  # on their way
        self.paused_seconds = 0.0
        self._paused_at = 0.0
        self.context = copy_context()
        self.context.run(PROCESS.set, self)
        self.died: asyncio.Future[None] = loop.create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        self._frozen: list[asyncio.Handle] = []
        loop.processes.append(self)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` in this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def own(self, task: asyncio.Task[Any]) -> None:
        """Keep the task from being collected, which would run its cleanup at a random moment."""
        self._tasks.append(task)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        if not self.is_dead:
            self.is_dead = True
            self.loop.call_soon(self.died.set_result, None, context=self.loop.root)

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused, self._paused_at = True, self.loop.seconds

    def resume(self) -> None:
        """SIGCONT: everything that became due meanwhile runs now."""
        if self.is_paused:
            self.paused_seconds += self.loop.seconds - self._paused_at
        self.is_paused = False
        if not self.is_dead:
            self.thaw()

    def freeze(self, handle: asyncio.Handle) -> None:
        """Keep a callback until `thaw`."""
        self._frozen.append(handle)

    def thaw(self) -> None:
        """Let everything run that was kept."""
        self.loop.run_soon(self._frozen)
        self._frozen = []


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class SimLoop(BaseEventLoop):
    """`seconds` is the virtual time since the start; `random` is the seed's stream for the order of callbacks."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.seconds = 0.0
        self.random = random.Random(f"loop {seed}")
        self.errors: list[dict[str, Any]] = []
        self.is_finishing = False
        self.root = copy_context()
        self.processes: list[Process] = []
        self.step_count = 0
        self.time_moves: Callable[[float, float], None] | None = None  # told before it does
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        return self.seconds

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.is_finishing:
            self.errors.append(context)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        task = super().create_task(coro, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.own(task)
        return task

    def run_soon(self, handles: list[asyncio.Handle]) -> None:
        """Make callbacks ready."""
        self._ready.extend(handles)

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        self._drop_cancelled()
        if not ready:
            if not scheduled:
                raise Deadlock("every task waits and no timer is set")
            then = max(self.seconds, scheduled[0].when())
            if self.time_moves is not None:
                self.time_moves(self.seconds, then)
            self.seconds = then
        while scheduled and scheduled[0].when() <= self.seconds:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        handles = list(ready)
        ready.clear()
        # Explore interleavings: whatever is ready now may run in any order.
        if len(handles) > 1:
            self.random.shuffle(handles)
        for handle in handles:
            if not handle._cancelled:  # type: ignore[attr-defined]
                self._run_handle(handle)

    def _run_handle(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and (process.is_dead or process.is_paused) and not self.is_finishing:
            process.freeze(handle)
            return
        self.step_count += 1
        handle._run()  # type: ignore[attr-defined]

    def _drop_cancelled(self) -> None:
        scheduled = self._scheduled
        if self._timer_cancelled_count > 100 and self._timer_cancelled_count * 2 > len(scheduled):
            left = []
            for timer in scheduled:
                if timer.cancelled():
                    timer._scheduled = False  # type: ignore[attr-defined]
                else:
                    left.append(timer)
            scheduled[:] = left
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0].cancelled():
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        # One thread only: there is no selector to wake.
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise AssertionError(f"{func} wants a thread: in the simulation every effect goes through a door of host/")


def run_simulated(seed: int | str, main: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    """Run `main(loop)` to its end in a fresh simulated loop and return what it returns."""
    loop = SimLoop(seed)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        _finish(loop)
        asyncio.set_event_loop(None)


def _finish(loop: SimLoop) -> None:
    """Nobody is left waiting: what the dead still hold is cancelled too, now that it can do no harm."""
    loop.is_finishing = True
    for process in loop.processes:
        process.thaw()
    for _ in range(100):
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        with contextlib.suppress(Deadlock):
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()
