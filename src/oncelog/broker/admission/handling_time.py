"""How long the loop was busy with a request: what `request_percentage` bounds (KIP-124).

Measured are the steps of its handler, from when they begin until they wait; not reading, decoding and encoding, nor what
a group commit does for many at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from oncelog.broker.requests.request import Outcome, Request


class HandlingTime:
    """Seconds that one request has taken, as far as they are over. `now_s` is the loop's time."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.used_s = 0.0
        self._now_s = now_s

    def measured(self, request: Request, answer: Callable[[Request], Outcome]) -> Outcome:
        """`answer`'s outcome; the steps of a handler's task count too."""
        request.measured = self._steps
        return self.step(lambda: answer(request))

    def step(self, act: Callable[[], Any]) -> Any:
        """Do `act`; its time counts."""
        begun_s = self._now_s()
        try:
            return act()
        finally:
            self.used_s += self._now_s() - begun_s

    async def _steps(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await _Awaitable(work, self)
        finally:
            work.close()


class _Awaitable:
    """Has each step of a coroutine measured."""

    def __init__(self, work: Coroutine[Any, Any, Any], spent: HandlingTime) -> None:
        self._steps = _Steps(work, spent)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._steps


class _Steps(Generator[Any, Any, Any]):
    def __init__(self, work: Coroutine[Any, Any, Any], spent: HandlingTime) -> None:
        self._work = work
        self._spent = spent

    def send(self, value: Any) -> Any:
        return self._spent.step(lambda: self._work.send(value))

    def throw(self, *error: Any) -> Any:  # a cancellation, say
        return self._spent.step(lambda: self._work.throw(*error))
