"""A failure between every two steps: effects are found by themselves, one fails in every way, and what is left is judged.

An effect is a call that leaves the process: every call of a blocking client, every call of a database that was wrapped. A
first clean run counts them; then each is struck in each `How`. Nothing in the product knows of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

import pytest

from oncelog import sync
from oncelog.errors import RequestTimedOut

T = TypeVar("T")


class How(Enum):
    """What becomes of the effect that is struck."""

    FAILS = "raises, nothing happened"
    UNANSWERED = "raises, it happened"
    HANGS = "raises after its timeout, and happens later"
    DIES_BEFORE = "the process dies before it"
    DIES_AFTER = "the process dies after it"
    CANCELLED = "the caller is interrupted before it"
    CANCELLED_AFTER = "the caller is interrupted after it"


LOOKS = (
    "end_offsets",
    "position",
    "poll",
    ".stop",
    "Session.start",
    "Consumer.start",
    "list_",
    "describe_",
    "execute",
    "read",
)
"""Names of steps that change nothing outside by themselves (a statement: its commit does)."""
SHORT = (How.UNANSWERED, How.DIES_AFTER)


def cases(names: list[str], ways: Sequence[How] = SHORT, *, all_of_them: bool = False) -> Iterator[tuple[int, How]]:
    """Each step with each way to fail. Unless all are wanted: what changes something, in these ways; the rest comes to the
    same as the step before or behind it.
    """
    for at, name in enumerate(names):
        if all_of_them:
            yield from ((at, how) for how in How)
        elif not any(look in name for look in LOOKS):
            yield from ((at, how) for how in ways)


class Died(BaseException):
    """The process is dead: none of its calls have an effect from now on."""


class Cancelled(BaseException):
    """An interrupt: what cleans up behind it still runs."""


class Steps:
    """The effects of one run: their names in order, and the one that is struck."""

    def __init__(self, at: int | None = None, how: How = How.FAILS) -> None:
        self.names: list[str] = []
        self.at, self.how = at, how
        self.is_dead = False
        self.clients: dict[int, Any] = {}  # those that were started and not stopped
        self._is_off = threading.local()
        self._late: Callable[[], Any] | None = None

    @property
    def was_struck(self) -> bool:
        return self.at is not None and len(self.names) > self.at

    @property
    def is_off(self) -> bool:
        return getattr(self._is_off, "now", False)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """What the test itself asks is no step."""
        before, self._is_off.now = self.is_off, True
        try:
            yield
        finally:
            self._is_off.now = before

    def happen_late(self) -> None:
        """What hung takes place."""
        late, self._late = self._late, None
        if late is not None:
            with self.off(), contextlib.suppress(Exception):
                late()

    def around(self, name: str, work: Callable[[], T], error: Callable[[], Exception] | None = None) -> T:
        """One effect; `error`: what a database's raises. Its session dies with the call: nothing happens later."""
        if self.is_off:
            return work()
        if self.is_dead:
            raise Died(name)
        if name.endswith("stop"):
            self.happen_late()
        number = len(self.names)
        self.names.append(name)
        if number != self.at:
            return work()
        return self._strike(name, work, error)

    def _strike(self, name: str, work: Callable[[], T], error: Callable[[], Exception] | None) -> T:
        failure = RequestTimedOut(name) if error is None else error()
        match self.how:
            case How.FAILS:
                raise failure
            case How.HANGS if error is None:
                self._late = work
                raise failure
            case How.DIES_BEFORE:
                self.is_dead = True
                raise Died(name)
            case How.CANCELLED:
                raise Cancelled(name)
        with contextlib.suppress(Exception):
            work()
        match self.how:
            case How.UNANSWERED | How.HANGS:
                raise failure
            case How.DIES_AFTER:
                self.is_dead = True
                raise Died(name)
        raise Cancelled(name)


@contextlib.contextmanager
def watching(steps: Steps) -> Iterator[Steps]:
    """Every call of a blocking client is a step."""
    call, result, begin = sync._Blocking._call, sync.SentRecord.result, sync.Producer.begin_completing

    def stepped(client: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        name = function.__qualname__

        def works() -> Any:
            if not steps.is_off:
                steps.clients[id(client)] = client
            done = call(client, function, *arguments, **options)
            if name.endswith(".stop"):
                steps.clients.pop(id(client), None)
            return done

        return steps.around(name, works)

    def result_stepped(sent: Any, timeout_ms: int | None = None) -> Any:
        return steps.around("SentRecord.result", lambda: result(sent, timeout_ms))

    def begin_stepped(producer: Any, *arguments: Any) -> Any:
        return steps.around("Producer.begin_completing", lambda: begin(producer, *arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync._Blocking, "_call", stepped)
        patch.setattr(sync.SentRecord, "result", result_stepped)
        patch.setattr(sync.Producer, "begin_completing", begin_stepped)
        yield steps
        steps.happen_late()
        with steps.off():  # the connections of the dead; what they hold is judged by now
            for client in list(steps.clients.values()):
                client.stop()
