"""The end of a client: begun once, and gone on with where whoever asked for it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.host.tasks import Tasks

log = logging.getLogger("oncelog.client")


@contextmanager
def behind(left_by: type[BaseException] | None) -> Iterator[None]:
    """Around the end of a client whose block was left: where an error left it, that one is raised, and not what a listener or
    a function of the application's raises at the end."""
    try:
        yield
    except BaseException as error:
        if left_by is None or not isinstance(error, Exception):
            raise
        log.error("the end of a client failed, behind the error that left its block", exc_info=error)


class Ending:
    """A client's goodbye and close. A goodbye that a cancellation cut short would leave a member that nobody can tell from a
    living one: its partitions are nobody's until its session times out."""

    def __init__(self) -> None:
        self._tasks = Tasks()  # not the client's own: its close ends those
        self._task: asyncio.Task[None] | None = None

    async def come(self, work: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        """Do `work`, which has a bound of its own. Who asks again waits for it, at most `timeout_s`: then it is cut short."""
        if self._task is None:
            self._task = self._tasks.start(work(), name="oncelog-ending")
            await asyncio.shield(self._task)
        elif not self._task.done():
            await asyncio.wait({self._task}, timeout=timeout_s)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
