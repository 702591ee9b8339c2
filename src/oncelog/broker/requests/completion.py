"""Post-process a reply, ready or pending: a handler's outcome, whose reply goes through one more function.

A reply that comes later may come from whoever commits for everybody: the function is then called in a step of its own, and a
mistake in it ends the connection of its request, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog.broker.requests.request import Later, Outcome, Reply, Request

Finish = Callable[[Reply], Reply]


def finished(request: Request, outcome: Outcome, finish: Finish) -> Outcome:
    """The same outcome of `request`, whose reply will go through `finish`."""
    if isinstance(outcome, Later):
        return _later(request, outcome, finish)
    return finish(outcome)


class _Forward:
    """Hands on what it hears of one `Later` to another."""

    def __init__(self, request: Request, later: Later, finish: Finish) -> None:
        self._request = request
        self._later = later
        self._finish = finish

    def given(self, reply: Reply) -> None:
        self._request.connection.tasks.soon(partial(self._finish_now, reply))

    def _finish_now(self, reply: Reply) -> None:
        try:
            done = self._finish(reply)
        except BaseException as error:
            self._later.fail(error)
            raise
        self._later.give(done)

    def turn_released(self) -> None:
        self._later.release_turn()

    def failed(self, error: BaseException | None) -> None:
        self._later.fail(error)


def _later(request: Request, outcome: Later, finish: Finish) -> Outcome:
    if outcome.is_given:
        return finish(outcome.reply)
    later = Later(keeps_turn=outcome.keeps_turn)
    later.on_drop = outcome.drop
    outcome.listen(_Forward(request, later, finish))
    return later
