"""A command that is told to end while it runs is cancelled, whichever signal says so (`signals.py`).

Its transaction is aborted and its place in a group given back, instead of both being left to their timeouts. A second
signal ends it at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from oncelog.cli.output import Failed
from oncelog.cli.signals import ENDING, Signalled, end_at_once, heard_by, raise_signalled


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own. Raises Signalled when a signal ended it."""
    running = _Running(work)
    with heard_by(running.signalled):
        result = asyncio.run(running.until_signalled())
    if running.ended_by is not None:
        raise running.ended_by
    return result


class _Running:
    """A command's body in its loop. A signal that comes when it is done has nothing to end any more."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.ended_by: Signalled | None = None
        self._work = work
        self._received: list[int] = []
        self._cancel: Callable[[], object] | None = None

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """A handler of Python's, not of the loop's: it is called also while the loop is held up by a full pipe."""
        if self._received:
            end_at_once(number, frame)
        self._received.append(number)
        ENDING.number = number
        if ENDING.is_standing and ENDING.is_unheard():
            raise_signalled(number)  # the loop is held up by a pipe that nobody reads or writes
        if self._cancel is not None:
            self._cancel()

    async def until_signalled(self) -> Any:
        """What the body gives; None, and `ended_by`, where a signal ended it."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            if ENDING.is_body is None:  # it was raised in the body, which is at its end: what that awaits is not cut
                return
            ENDING.heard(self._received[0])
            task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)
        ENDING.is_body = lambda: asyncio.current_task() is task
        try:
            if self._received:  # before it began
                self._work.close()
                raise Signalled(self._received[0])
            return await self._work
        except Signalled as error:  # also one that was raised at a question
            self.ended_by = error
        except asyncio.CancelledError:
            if not self._received:
                raise
            self.ended_by = Signalled(self._received[0])
        finally:
            self._cancel = ENDING.is_body = None


def asked(question: str, *, is_hidden: bool = False) -> str:
    """What a person at the terminal answers, without the line's end. It holds up everything else, and nothing may have been
    changed yet. `is_hidden`: what is typed is not shown.

    Raises Signalled for a signal, at once; Failed when the input ended without an answer (Ctrl-D).
    """
    try:
        with heard_by(raise_signalled), _waking() as woken, _unseen(is_hidden):
            click.echo(f"{question}: ", nl=False, err=True)
            select.select([sys.stdin, woken], [], [])
            answer = sys.stdin.readline()  # a terminal gives one line at a time
    except Signalled as error:
        click.echo(err=True)  # the cursor stands behind the question
        raise Signalled(error.number, "nothing was changed") from None
    if not answer or is_hidden:
        click.echo(err=True)
    if not answer:
        raise Failed("no answer, nothing was changed")
    return answer.rstrip("\r\n")


def first_line() -> str:
    """The first line of a stdin that is no terminal, without its end; nothing may have been changed yet. Raises Signalled."""
    if sys.stdin is None:
        return ""
    try:
        with heard_by(raise_signalled):
            return sys.stdin.readline().rstrip("\r\n")
    except Signalled as error:
        raise Signalled(error.number, "nothing was changed") from None


@contextmanager
def _waking() -> Iterator[int]:
    """A file that a signal makes readable: one that comes just before a read would not end it."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    before = signal.set_wakeup_fd(waking)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waking)


@contextmanager
def _unseen(is_hidden: bool) -> Iterator[None]:
    if not is_hidden:
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    unseen = [*before]
    unseen[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, unseen)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
