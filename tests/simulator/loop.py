"""A deterministic asyncio loop: time moves only when everybody waits; the order of ready callbacks comes from the seed.

It overrides `_run_once`, a private method of asyncio's loop: `test_loop.py` pins that one seed gives one trace.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any


class Deadlock(AssertionError):
    """Every task waits and no timer is set: nothing can ever happen again."""


class _VirtualTime(selectors.SelectSelector):
    """Instead of waiting for sockets, moves the loop's clock to the next timer."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock("every task waits and no timer is set")
        self._loop.seconds += max(timeout, 0.0)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """`seconds` is the virtual time since the start; `random` is the seed's stream for the order of callbacks."""

    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int) -> None:
        self.seconds = 0.0
        self.random = random.Random(f"loop {seed}")
        self.errors: list[dict[str, Any]] = []
        super().__init__(_VirtualTime(self))
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        return self.seconds

    def _run_once(self) -> None:
        # Explore interleavings: whatever is ready now may run in any order.
        if len(self._ready) > 1:
            ready = list(self._ready)
            self._ready.clear()
            self.random.shuffle(ready)
            self._ready.extend(ready)
        super()._run_once()  # type: ignore[misc]

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        # One thread only: what would wake the selector is just another ready callback.
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise AssertionError(f"{func} wants a thread: in the simulation every effect goes through a door of host/")


def run_simulated(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    """Run `main(loop)` to its end in a fresh simulated loop and return what it returns."""
    loop = SimLoop(seed)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        _finish(loop)
        asyncio.set_event_loop(None)


def _finish(loop: SimLoop) -> None:
    for _ in range(100):
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()
