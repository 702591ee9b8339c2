"""A handler that has to wait is a coroutine: it runs in a task of its connection's, and its outcome is a `Later`.

So whoever gets an outcome knows two kinds only. The next request waits until the task has ended; where nobody waits for
the reply any more, the task is cancelled; an error in it is reported by who owns the task, and the listener hears `failed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from oncelog.broker.requests.request import Later, Reply, Request


def begin_in_task(request: Request, work: Coroutine[Any, Any, Reply]) -> Later:
    """Start a handler's coroutine."""
    if request.measured is not None:
        work = request.measured(work)
    later = Later(keeps_turn=True)
    later.on_drop = request.connection.tasks.start(_give(later, work), on_end=partial(_ended, later, work)).cancel
    return later


async def _give(later: Later, work: Coroutine[Any, Any, Reply]) -> None:
    later.give(await work)


def _ended(later: Later, work: Coroutine[Any, Any, Reply], task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or error is not None:
        work.close()  # where it was cancelled before its first step
        later.fail(error)
