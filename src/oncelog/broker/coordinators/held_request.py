"""A request that is only refused because its transactional id has a transition under way: decided anew when that is over.

Most transactions of a busy producer begin like this, while the markers of the one before are being synced; so it is made
of callbacks, without a task. At the deadline the refusal is the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from oncelog.broker.coordinators.coordinator import Ended
from oncelog.broker.requests.request import Later, Reply, Request
from oncelog.core.decision import Decision
from oncelog.errors import ErrorCode


class Coordinator(Protocol):
    """What is asked of the id's coordinator."""

    def decide(self) -> Decision | None:
        """A new decision on the request; None while it cannot be made (producer ids are missing)."""
        ...

    def begin(self, decision: Decision, ended: Ended) -> None:
        """Perform a decision."""
        ...

    def when_not_busy(self, then: Callable[[], None]) -> None:
        """Call `then` in a later step, once no transition of the id is under way."""
        ...

    def no_longer(self, then: Callable[[], None]) -> None:
        """Forget who waits by `when_not_busy`."""
        ...


class HeldRequest:
    """`later` gets the reply. `decision` is the refusal that began it, performed at once."""

    def __init__(
        self,
        request: Request,
        coordinator: Coordinator,
        decision: Decision,
        *,
        only_waits: Callable[[Decision], bool],
        refused: Callable[[ErrorCode], Reply],
        deadline: float,
    ) -> None:
        self.later = Later(keeps_turn=True)
        self.later.on_drop = self._end
        self._request = request
        self._coordinator = coordinator
        self._only_waits = only_waits
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._timer = self._loop.call_at(deadline, self._time_is_up)
        self._is_over = False
        self._perform(decision)

    def _perform(self, decision: Decision) -> None:
        self._decision = decision
        if self._waits():
            self._request.hold()
        self._coordinator.begin(decision, self._performed)

    def _waits(self) -> bool:
        return self._only_waits(self._decision) and self._loop.time() < self._deadline

    def _performed(self, code: ErrorCode) -> None:
        if self._is_over:
            return
        if code is not ErrorCode.NONE:
            self._answer(self._refused(code))
        elif self._waits():
            self._coordinator.when_not_busy(self._again)
        else:
            self._answer(self._decision.reply)

    def _again(self) -> None:
        if self._is_over:
            return
        decision = self._coordinator.decide()
        if decision is None:
            self._answer(self._decision.reply)
        else:
            self._perform(decision)

    def _time_is_up(self) -> None:
        if not self._is_over and self._only_waits(self._decision):
            self._answer(self._decision.reply)

    def _answer(self, reply: Reply) -> None:
        self._end()
        self.later.give(reply)

    def _end(self) -> None:
        self._is_over = True
        self._timer.cancel()
        self._coordinator.no_longer(self._again)
