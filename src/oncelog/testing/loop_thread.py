"""Something asynchronous that lives in a thread of its own, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")

START_TIMEOUT_SECONDS = 30


class LoopThread(Generic[T]):
    """An async context, made and entered in the event loop of a daemon thread, until `stop`. `what` is for errors.

    `new_loop` makes the loop (default: asyncio's).
    """

    def __init__(
        self,
        what: str,
        make: Callable[[], AbstractAsyncContextManager[T]],
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self._what, self._make, self._new_loop = what, make, new_loop
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._entered: T
        self._thread = threading.Thread(target=self._run_loop, name=f"oncelog-{what}", daemon=True)

    def start(self) -> T:
        """What entering the context gave. Raises what it raised, and TimeoutError."""
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_SECONDS):
            raise TimeoutError(f"the {self._what} did not start")
        if self._failure is not None:
            raise self._failure
        return self._entered

    def stop(self) -> None:
        """Leave the context, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(START_TIMEOUT_SECONDS)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Its event loop, once it was started."""
        return self._loop

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._make() as self._entered:
                self._ready.set()
                await self._stopped.wait()
        except BaseException as error:
            self._failure = error
            if self._ready.is_set():  # else `start` raises it
                raise
        finally:
            self._ready.set()
