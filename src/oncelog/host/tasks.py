"""Owned tasks: what `asyncio.TaskGroup` is for one block, `Tasks` is for an object with a long life.

Every task belongs to one owner, is cancelled and awaited when the owner closes, and a task that dies of an error nobody
handled is reported at once instead of vanishing. Rule: no other place in oncelog calls `create_task`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
OnEnd = Callable[[asyncio.Task[Any]], None]


class Tasks:
    """A set of running tasks with one owner; `on_failure` hears of each unhandled error (once, on the loop)."""

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        # In the order of their start: a run can be repeated. With each, who hears that it ended.
        self._tasks: dict[asyncio.Task[Any], OnEnd | None] = {}
        self._on_failure = on_failure
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self, work: Coroutine[Any, Any, T], *, name: str | None = None, on_end: OnEnd | None = None
    ) -> asyncio.Task[T]:
        """Run `work` until it ends or the owner closes; then `on_end` is called, after an error has been reported."""
        if self.is_closed:
            work.close()
            raise RuntimeError("this owner's tasks are closed")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = on_end
        task.add_done_callback(self._ended)
        return task

    def soon(self, act: Callable[[], object]) -> None:
        """Do `act` in a step of the loop's own; an error in it is reported as a task's is."""
        asyncio.get_running_loop().call_soon(self._act, act)

    def _act(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:
            if self._on_failure is None or not isinstance(error, Exception):
                raise
            if not self.is_closed:
                self._on_failure(error)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        on_end = self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._on_failure is not None and not self.is_closed:
            self._on_failure(error)
        if on_end is not None:
            on_end(task)

    def cancel(self) -> None:
        """Cancel all that runs now; does not wait."""
        for task in tuple(self._tasks):
            task.cancel()

    async def finished(self) -> None:
        """Wait until nothing runs."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Cancel all and wait until they ended; nothing can be started afterwards."""
        self.is_closed = True
        self.cancel()
        await self.finished()
