"""The signals that tell a command to end: Ctrl-C (SIGINT), `kill` and service managers (SIGTERM), a terminal that went away
(SIGHUP). A command that one of them ended has status 128 + its number and says so in one line.

Who hears them changes in a command's life: while it is imported nothing has begun, and it ends at once; in its body they
are raised; in its event loop the body is cancelled (`interruption.py`); at a question they are raised again. One that the
process was started with as ignored (SIGHUP by nohup, SIGINT by a shell's `&`) stays ignored.

This is loaded before anything else is: it imports nothing slow.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
CUT_SHORT = "the stop was cut short: nothing acknowledged is lost, and the next start recovers"  # of a broker
# Service managers tell a process to end more than once; later it is somebody who does not want to wait.
REPEATED_WITHIN_S = 1.0
STDERR = 2
Handler = Callable[[int, FrameType | None], object]


class Signalled(KeyboardInterrupt):
    """A signal said that the command is to end. `number`: which; `detail`: what else there is to say."""

    def __init__(self, number: int, detail: str = "") -> None:
        super().__init__(number)
        self.number = signal.Signals(number)
        self.detail = detail


class Ending:
    """What the standard streams ask: whether the process was told to end, and who has heard of it. A read or write of theirs that
    stands does not hold up the end (`standard_streams.py`)."""

    def __init__(self) -> None:
        self.number = 0  # the signal; 0 where none came
        self.is_standing = False  # whether the main thread waits for the other end of a standard stream
        # Whether a command's body is running, that has not heard of the signal.
        self.is_body: Callable[[], bool] | None = None

    def heard(self, number: int) -> None:
        """Who is to end knows it: what it still writes is written where there is room."""
        self.number, self.is_body = number, None

    def is_unheard(self) -> bool:
        """Whether the signal came and who runs now has not heard of it."""
        return self.number != 0 and self.is_body is not None and self.is_body()


ENDING = Ending()


def line_of(error: BaseException) -> str:
    """What is said of a signal that was raised; of SIGINT where Python itself raised it."""
    number, detail = (error.number, error.detail) if isinstance(error, Signalled) else (signal.SIGINT, "")
    return f"{WORDS[number]}: {detail}" if detail else WORDS[number]


def status_of(error: BaseException) -> int:
    """The exit status of what a signal ended, as shells count it."""
    return status_after(error.number if isinstance(error, Signalled) else signal.SIGINT)


def status_after(number: int) -> int:
    """The exit status of what this signal ended."""
    return 128 + number


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those that tell this process to end; not those that whoever started it said are to be ignored."""
    return tuple(number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN)


def end_at_once(number: int, _: FrameType | None = None, detail: str = "") -> NoReturn:
    """A handler: the process ends here, with one line. For when nothing has begun, and for who asks twice."""
    told = line_of(Signalled(number, detail))
    with suppress(OSError):  # the terminal may be gone, or the pipe be full
        if select.select([], [STDERR], [], 0)[1]:
            os.write(STDERR, f"{told}\n".encode("ascii"))
    os._exit(status_after(number))


def raise_signalled(number: int, _: FrameType | None = None) -> NoReturn:
    """A handler. Raises Signalled, wherever the main thread is."""
    ENDING.heard(number)
    raise Signalled(number)


def hear(handler: Handler) -> None:
    """From now on `handler` is called; nothing is changed outside the main thread, which alone is told of signals."""
    with suppress(ValueError):
        for number in ending_signals():
            signal.signal(number, handler)


def hear_in_loop(loop: AbstractEventLoop, told: Callable[[int], object]) -> None:
    """`told` is called when the event loop comes to it; a full pipe holds that up no longer."""

    def heard(number: int, _: FrameType | None) -> None:
        ENDING.heard(number)
        with suppress(RuntimeError):  # the loop is closed: who runs it is at its end anyway
            loop.call_soon_threadsafe(told, number)

    # It has every signal wake the loop, whichever thread takes it. The loop would undo handlers of its own when it is closed.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    for number in {*ending_signals(), signal.SIGINT}:
        signal.signal(number, heard)


def stop_goes_on(number: int, _: FrameType | None = None) -> None:
    """A handler: a stop in good order has begun, and more of the same at once does not cut it."""


def pass_over_repeats(loop: AbstractEventLoop, told: Callable[[int], object]) -> None:
    """A stop in good order has begun: for a moment `told` hears of Ctrl-C only. Who types that means it."""
    for number in ending_signals():
        if number != signal.SIGINT:
            signal.signal(number, stop_goes_on)
    loop.call_later(REPEATED_WITHIN_S, hear_in_loop, loop, told)


def hear_only_interrupts() -> None:
    """The stop is over, and nothing is left that a signal could cut short."""
    for number in ending_signals():
        signal.signal(number, end_at_once if number == signal.SIGINT else signal.SIG_IGN)


@contextmanager
def heard_by(handler: Handler) -> Iterator[None]:
    """`handler` is called while this lasts, and then who was called before."""
    before = {number: signal.getsignal(number) for number in ending_signals()}
    hear(handler)
    try:
        yield
    finally:
        with suppress(ValueError):
            for number, former in before.items():
                signal.signal(number, former)
