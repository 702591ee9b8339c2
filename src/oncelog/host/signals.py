"""The door for SIGTERM: who is told to end ends in good order. (SIGINT needs none: Python makes an exception of it.)"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_told: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}


@contextmanager
def terminating_in_loop(tell: Callable[[], None]) -> Iterator[None]:
    """`tell` is called in the running loop at SIGTERM. Nothing is done where the application handles the signal by itself,
    or where this is not the main thread, or the loop or the system knows no signals."""
    loop = asyncio.get_running_loop()
    if not _may_handle() and loop not in _told:
        yield
        return
    if loop not in _told:
        try:
            loop.add_signal_handler(signal.SIGTERM, _tell_all, loop)
        except (NotImplementedError, RuntimeError, ValueError):
            yield
            return
        _told[loop] = []
    _told[loop].append(tell)
    try:
        yield
    finally:
        _told[loop].remove(tell)
        if not _told[loop]:
            del _told[loop]
            loop.remove_signal_handler(signal.SIGTERM)


def _tell_all(loop: asyncio.AbstractEventLoop) -> None:
    for tell in tuple(_told.get(loop, ())):
        tell()


@contextmanager
def terminating_in_thread(tell: Callable[[], None]) -> Iterator[None]:
    """`tell` is called in the main thread at SIGTERM, between two steps of its work; nothing is done in other threads."""
    if not _may_handle():
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: tell())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _may_handle() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
