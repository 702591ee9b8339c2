"""Who came in, who did not, and who was denied what: one JSON object a line in the log `oncelog.audit`.

Whatever a client named is escaped, so that no name forges a line or steers a terminal; nothing secret comes here. An
address may fail `FAILURES_MAX` times a minute; what is beyond is counted, and told with the minute's end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

_log = logging.getLogger("oncelog.audit")

TEXT_LENGTH_MAX = 256
FAILURES_MAX = 10
WINDOW_S = 60.0
ADDRESSES_MAX = 10_000
OTHERS = "(others)"

AuditValue = str | float | Sequence[Mapping[str, str]]  # a list where something happened to several things


class Budget(Protocol):
    """How many lines may go to the log."""

    def take(self, now_s: float) -> int | None:
        """How many were left out before this one; None where this one is left out too."""
        ...


class Audit:
    """The log of one broker. `now_ms` is the wall's clock."""

    def __init__(self, budget: Budget, now_ms: Callable[[], int]) -> None:
        self._budget = budget
        self._now_ms = now_ms
        self._failures: Counter[str] = Counter()
        self._window_begun_s = float("-inf")

    def said(self, event: str, address: str, **what: AuditValue) -> None:
        """Something that happened to a client at `address`."""
        if not _log.isEnabledFor(logging.INFO):
            return
        left_out = self._budget.take(asyncio.get_running_loop().time())
        if left_out is not None:
            more: dict[str, AuditValue] = {"left_out": left_out} if left_out else {}
            self._write(event, address, {**what, **more})

    def failed(self, event: str, address: str, **what: AuditValue) -> None:
        """As `said`, of what a guesser does a thousand times a second."""
        self._begin_window()
        known = address if address in self._failures or len(self._failures) < ADDRESSES_MAX else OTHERS
        self._failures[known] += 1
        if self._failures[known] <= FAILURES_MAX:
            self.said(event, address, **what)

    def _begin_window(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._window_begun_s < WINDOW_S:
            return
        self._window_begun_s = now_s
        before, self._failures = self._failures, Counter()
        beyond = sum(count - FAILURES_MAX for count in before.values() if count > FAILURES_MAX)
        if beyond:
            self.said("failures not shown", "", count=beyond, addresses=sum(n > FAILURES_MAX for n in before.values()))

    def _write(self, event: str, address: str, what: dict[str, AuditValue]) -> None:
        import json  # where nobody has to say who it is, nothing is written

        shown = {name: _cut(value) for name, value in what.items()}
        line = {"time_ms": self._now_ms(), "event": event, "address": address, **shown}
        _log.info("%s", json.dumps(line))  # with every character beyond ASCII escaped


def _cut(value: AuditValue) -> AuditValue:
    if isinstance(value, str):
        return value[:TEXT_LENGTH_MAX]
    if isinstance(value, (int, float)):
        return value
    return [{name: text[:TEXT_LENGTH_MAX] for name, text in each.items()} for each in value]
