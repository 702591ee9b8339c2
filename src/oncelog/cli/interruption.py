"""A command that is told to end (SIGTERM, from `kill`, `timeout` or a service manager) ends as after Ctrl-C.

Its transaction is aborted and its place in a group given back, instead of both being left to their timeouts. A second
SIGTERM ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import click

EXIT_TERMINATED = 128 + signal.SIGTERM


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own. Raises click's Exit with status 143 after SIGTERM."""
    return asyncio.run(_until_terminated(work))


async def _until_terminated(work: Coroutine[Any, Any, Any]) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_terminated = False

    def terminate() -> None:
        nonlocal is_terminated
        is_terminated = True
        loop.remove_signal_handler(signal.SIGTERM)
        task.cancel()

    with contextlib.suppress(RuntimeError, ValueError):  # only a main thread is told of signals
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await work
    except asyncio.CancelledError:
        if is_terminated:
            raise click.exceptions.Exit(EXIT_TERMINATED) from None
        raise
