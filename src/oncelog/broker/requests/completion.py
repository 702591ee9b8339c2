"""Post-process a reply, ready or pending: a handler's outcome, whose reply goes through one more function."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.broker.requests.request import Later, Outcome, Reply

Finish = Callable[[Reply], Reply]


def finished(outcome: Outcome, finish: Finish) -> Outcome:
    """The same outcome, whose reply will go through `finish`."""
    if isinstance(outcome, Later):
        return _later(outcome, finish)
    return finish(outcome)


class _Forward:
    """Hands on what it hears of one `Later` to another."""

    def __init__(self, later: Later, finish: Finish) -> None:
        self._later = later
        self._finish = finish

    def given(self, reply: Reply) -> None:
        self._later.give(self._finish(reply))

    def turn_released(self) -> None:
        self._later.release_turn()

    def failed(self, error: BaseException | None) -> None:
        self._later.fail(error)


def _later(outcome: Later, finish: Finish) -> Outcome:
    if outcome.is_given:
        return finish(outcome.reply)
    later = Later(keeps_turn=outcome.keeps_turn)
    later.on_drop = outcome.drop
    outcome.listen(_Forward(later, finish))
    return later
