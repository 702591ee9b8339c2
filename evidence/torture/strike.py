"""A coroutine that is cancelled at a chosen place where it waits, as `task.cancel()` would do it."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class Strike:
    """Where to cancel: at these waits of the whole coroutine, counted from 0.

    `is_late`: when what it waits for has come, and it does not know yet: the effect has happened, its result is lost.
    """

    def __init__(self, at: Iterable[int], *, is_late: bool = False) -> None:
        self.at, self.is_late = frozenset(at), is_late
        self.wait_count = self.strike_count = 0

    def __str__(self) -> str:
        return f"cancelled at wait {', '.join(map(str, sorted(self.at)))}{' (late)' if self.is_late else ''}"

    async def around(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in a task of its own; it is cancelled there."""
        return await asyncio.get_running_loop().create_task(self._struck(work))

    async def _struck(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._stepped(work)  # type: ignore[no-any-return]

    @types.coroutine
    def _stepped(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, None, Any]:
        task = asyncio.current_task()
        assert task is not None
        raised: BaseException | None = None
        while True:
            try:
                waits_for = work.send(None) if raised is None else work.throw(raised)
            except StopIteration as ended:
                return ended.value
            raised = None
            if self.wait_count in self.at:
                self.strike_count += 1
                if self.is_late and waits_for is not None and not waits_for.done():
                    waits_for.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            self.wait_count += 1
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 (what the task throws in is the coroutine's)
                raised = error
