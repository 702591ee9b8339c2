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
from typing import NoReturn

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
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


def end_at_once(number: int, _: FrameType | None = None) -> NoReturn:
    """A handler: the process ends here, with one line. For when nothing has begun, and for who asks twice."""
    with suppress(OSError):  # the terminal may be gone, or the pipe be full
        if select.select([], [STDERR], [], 0)[1]:
            os.write(STDERR, f"{WORDS[signal.Signals(number)]}\n".encode("ascii"))
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


def hear_in_streams() -> None:
    """For an event loop with handlers of its own, which are called when it comes to them: a full pipe holds it up no longer."""
    for number in {*ending_signals(), signal.SIGINT}:
        former = signal.getsignal(number)

        def heard(number: int, frame: FrameType | None, former: object = former) -> None:
            ENDING.heard(number)
            if callable(former):
                former(number, frame)

        signal.signal(number, heard)


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
