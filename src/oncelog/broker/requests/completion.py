"""Post-process a reply, ready or pending: a handler's outcome, whose reply goes through one more function.

A reply that comes later may come from whoever commits for everybody: the function is then called in a step of its own, and a
mistake in it ends the connection of its request, nothing else. So is called who wants to know that there will be no answer.
Where it must know what becomes of what was asked, it may have the handler go on though nobody waits for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog.broker.requests.request import Later, Outcome, Reply, Request

Finish = Callable[[Reply], Reply]
Unanswered = Callable[[str], object]
GoesOn = Callable[[], bool]
CLIENT_GONE = "its client had gone before it was answered"
BROKER_STOPPED = "the broker stopped before it was answered"
FAILED = "it failed and was not answered"


def finished(
    request: Request,
    outcome: Outcome,
    finish: Finish,
    unanswered: Unanswered | None = None,
    goes_on: GoesOn = lambda: False,
) -> Outcome:
    """The same outcome of `request`, whose reply will go through `finish`; where there will be none, `unanswered` is told why.
    Once nobody waits for it, `goes_on` is asked whether what is under way is to come to its end all the same."""
    if isinstance(outcome, Later):
        return _later(request, outcome, finish, unanswered, goes_on)
    return finish(outcome)


class _Forward:
    """Hands on what it hears of one `Later`, `outcome`, to another."""

    def __init__(
        self,
        request: Request,
        outcome: Later,
        later: Later,
        finish: Finish,
        unanswered: Unanswered | None,
        goes_on: GoesOn,
    ) -> None:
        self._request = request
        self._outcome = outcome
        self._later = later
        self._finish = finish
        self._unanswered = unanswered
        self._goes_on = goes_on

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
        self._tell(BROKER_STOPPED if error is None else FAILED)
        self._later.fail(error)

    def dropped(self) -> None:
        if self._outcome.on_drop is None or self._goes_on():
            return  # nothing ends what is under way: `finish` hears what becomes of it, though nobody is answered
        self._outcome.drop()
        if not self._outcome.is_given:  # else `finish` is about to be called
            self._tell(CLIENT_GONE)

    def _tell(self, why: str) -> None:
        tell, self._unanswered = self._unanswered, None  # what has failed is dropped, too
        if tell is not None:
            self._request.connection.tasks.soon(partial(tell, why))


def _later(request: Request, outcome: Later, finish: Finish, unanswered: Unanswered | None, goes_on: GoesOn) -> Outcome:
    if outcome.is_given:
        return finish(outcome.reply)
    later = Later(keeps_turn=outcome.keeps_turn)
    forward = _Forward(request, outcome, later, finish, unanswered, goes_on)
    later.on_drop = outcome.drop if unanswered is None else forward.dropped
    outcome.listen(forward)
    return later
