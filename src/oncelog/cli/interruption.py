"""A command that is told to end ends as after Ctrl-C: by SIGTERM (`kill`, `timeout`, a service manager), or by SIGHUP
(its terminal went away; under nohup it is ignored).

Its transaction is aborted and its place in a group given back, instead of both being left to their timeouts. A second
signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import click

EXIT_TERMINATED = 128 + signal.SIGTERM


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those that tell a process to end; not SIGHUP where whoever started it said that it is to stay."""
    stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM,) if stays else (signal.SIGTERM, signal.SIGHUP)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own. Raises click's Exit with status 143 after SIGTERM, 129 after SIGHUP."""
    return asyncio.run(_until_terminated(work))


async def _until_terminated(work: Coroutine[Any, Any, Any]) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[signal.Signals] = []
    signals = ending_signals()

    def terminate(number: signal.Signals) -> None:
        received.append(number)
        for each in signals:
            loop.remove_signal_handler(each)
        task.cancel()

    with contextlib.suppress(RuntimeError, ValueError):  # only a main thread is told of signals
        for number in signals:
            loop.add_signal_handler(number, terminate, number)
    try:
        return await work
    except asyncio.CancelledError:
        if received:
            raise click.exceptions.Exit(128 + received[0]) from None
        raise
