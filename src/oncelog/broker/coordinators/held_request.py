"""A request that is only refused because its transactional id has a transition under way: decided anew when that is over.

Most transactions of a busy producer begin like this, while the markers of the one before are being synced; so it is made
of callbacks, without a task. At the deadline the refusal is the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog.broker.coordinators.coordinator import Coordinator
from oncelog.broker.requests.request import Later, Reply, Request
from oncelog.core.decision import Decision
from oncelog.core.transactions.coordinator import TransactionCoordinator
from oncelog.errors import ErrorCode


class HeldRequest:
    """`later` gets the reply. `decision` is the refusal that began it, performed at once.

    `decide` decides anew, or gives None while that cannot be done (producer ids are missing).
    """

    def __init__(
        self,
        request: Request,
        coordinator: Coordinator[TransactionCoordinator],
        transactional_id: str,
        decide: Callable[[], Decision | None],
        decision: Decision,
        *,
        may_succeed_later: Callable[[Decision], bool],
        refused: Callable[[ErrorCode], Reply],
        deadline: float,
    ) -> None:
        self.later = Later(keeps_turn=True)
        self.later.on_drop = self._end
        self._request = request
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._decide = decide
        self._may_succeed_later = may_succeed_later
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._timer = self._loop.call_at(deadline, self._time_is_up)
        self._is_over = False
        self._perform(decision)

    def _perform(self, decision: Decision) -> None:
        self._decision = decision
        if self._waits():
            self._request.hold(self._transactional_id)
        self._coordinator.perform_then(decision, self._performed)

    def _waits(self) -> bool:
        return self._may_succeed_later(self._decision) and self._loop.time() < self._deadline

    def _performed(self, code: ErrorCode) -> None:
        if self._is_over:
            return
        if code is not ErrorCode.NONE:
            self._answer(self._refused(code))
        elif self._waits():
            self._wait()
        else:
            self._answer(self._decision.reply)

    def _wait(self) -> None:
        if self._coordinator.machine.is_busy(self._transactional_id):
            self._coordinator.waiters.add(self._transactional_id, self._again)
        else:
            self._loop.call_soon(self._again)

    def _again(self) -> None:
        if self._is_over:
            return
        decision = self._decide()
        if decision is None:
            self._answer(self._decision.reply)
        else:
            self._perform(decision)

    def _time_is_up(self) -> None:
        if not self._is_over and self._may_succeed_later(self._decision):
            self._answer(self._decision.reply)

    def _answer(self, reply: Reply) -> None:
        self._end()
        self.later.give(reply)

    def _end(self) -> None:
        self._is_over = True
        self._timer.cancel()
        self._coordinator.waiters.discard(self._transactional_id, self._again)
