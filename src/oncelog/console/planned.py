"""What a plan is, and keeping those that somebody looks at: each is valid for `VALID_S` and is taken once, by its word."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import msgspec

from oncelog.cli.output import counted, printable
from oncelog.cli.transactions.plan import Planned
from oncelog.errors import InvalidArgument
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

VALID_S = 60.0
PLANS_MAX = 100
ROWS_MAX = 200
Cells = tuple[tuple[Any, ...], ...]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action and what it is about; which fields are needed depends on it."""

    action: str
    transactional_id: str = ""
    state: str = ""
    outcome: str = ""
    topic: str = ""
    partition: int = -1
    producer_id: int = -1
    group: str = ""
    to: str = ""
    at: str = ""


@dataclass(frozen=True)
class Plan:
    """`seen`: what must still be so when it is done; `word`: what has to be typed. `rows`: each thing, with what becomes of it.

    Of a reset: `positions` are what is stored, `kept` is which offsets each partition has. `decided`: what a database decided.
    """

    wanted: Wanted
    seen: tuple[Any, ...]
    word: str
    text: tuple[str, ...]
    command: str
    ends_s: float
    columns: tuple[str, ...] = ()
    rows: Cells = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    kept: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    decided: tuple[Planned, ...] = ()
    plan_id: str = field(default_factory=lambda: secrets.token_urlsafe(18))

    def is_still_so(self, now: Plan) -> bool:
        """Whether a second look saw the same, and no position that would be stored has gone from its log meanwhile.

        Of several decisions one is enough: each is ended by itself, and only as it was seen.
        """
        if self.decided:
            return not set(self.seen).isdisjoint(now.seen)
        is_kept = all(now.kept[at][0] <= offset <= now.kept[at][1] for at, offset in self.positions.items())
        return self.seen == now.seen and is_kept

    def answer(self) -> dict[str, Any]:
        """As JSON."""
        shown = {"id": self.plan_id, "action": self.wanted.action, "outcome": self.wanted.outcome, "word": self.word}
        table = shown_table(self.columns, self.rows)
        return {**shown, "text": list(self.text), **table, "command": self.command, "valid_s": VALID_S}


def shown_table(columns: tuple[str, ...], rows: Cells) -> dict[str, Any]:
    """A table as JSON, cut where nobody would read on; `more` says that it was."""
    more = f"and {counted(len(rows) - ROWS_MAX, 'row')} more" if len(rows) > ROWS_MAX else ""
    return {"columns": list(columns), "rows": [list(map(str, each)) for each in rows[:ROWS_MAX]], "more": more}


@dataclass
class Plans:
    """The plans that somebody looks at. A plan is done once, or never."""

    clock: Callable[[], float] = time.monotonic
    _kept: dict[str, Plan] = field(default_factory=dict)

    def keep(self, plan: Plan) -> None:
        """Valid from now on; the oldest goes where there are too many."""
        now_s = self.clock()
        self._kept = {key: each for key, each in self._kept.items() if each.ends_s > now_s}
        while len(self._kept) >= PLANS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[plan.plan_id] = plan

    def take(self, plan_id: str, word: str) -> Plan:
        """The plan, if its word was typed; it can be taken once. Raises InvalidArgument."""
        plan = self._kept.get(plan_id)
        if plan is None or plan.ends_s <= self.clock():
            raise InvalidArgument("this plan is over: look again")
        if word not in (plan.word, printable(plan.word)):  # a browser's field takes no newline
            raise InvalidArgument("not confirmed, nothing was changed: type the name that the plan says")
        del self._kept[plan_id]
        return plan
