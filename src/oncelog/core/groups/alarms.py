"""When each group of a coordinator wants to be looked at. Heartbeats only move deadlines away, so one alarm for each group is
enough: it may ring too early, and is then set anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Protocol

ALARMS_SPARE = 64


class Scheduled(Protocol):
    """A group of any kind."""

    group_id: str
    scheduled_ms: int | None

    def next_deadline(self) -> int | None:
        """When something of the group is due."""
        ...


class Alarms:
    """The alarms of all groups, in ms of the caller's clock. `known` are the groups that there are."""

    def __init__(self, known: Callable[[], Iterable[Scheduled]]) -> None:
        self._known = known
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the next one rings."""
        return self._heap[0][0] if self._heap else None

    def set(self, group: Scheduled, group_count: int) -> None:
        """Sets the group's alarm unless one is set that rings early enough. Of so many groups some more are kept."""
        deadline_ms = group.next_deadline()
        if deadline_ms is not None and (group.scheduled_ms is None or deadline_ms < group.scheduled_ms):
            group.scheduled_ms = deadline_ms
            heappush(self._heap, (deadline_ms, group.group_id))
            if len(self._heap) > 2 * group_count + ALARMS_SPARE:
                self._drop_stale()

    def _drop_stale(self) -> None:
        """Alarms of groups that are gone, or that were set anew, would else stay until their time."""
        self._heap = [(each.scheduled_ms, each.group_id) for each in self._known() if each.scheduled_ms is not None]
        heapify(self._heap)

    def take_due(self, now_ms: int) -> list[tuple[int, str]]:
        """Those that ring now: when they were due, and of which group."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap))
        return due

    @staticmethod
    def rings_for(group: Scheduled, alarm_ms: int) -> bool:
        """Whether this alarm is still the group's; then it has rung."""
        if group.scheduled_ms != alarm_ms:
            return False
        group.scheduled_ms = None
        return True
