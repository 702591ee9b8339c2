"""Changes of a share group that are kept in two logs: the group's own, and that of its partitions' states.

Each is made to its end, whoever asked for it, and one at a time for each group: heartbeats wait for it too, so nobody joins a
group between two of its steps. What a group says it has begun has a state: a state is stored before the group says so, and
given up after the group has forgotten it. A stop or a crash between the two leaves states that no group knows; the next start
gives them up (`SharePartitions.forget_orphans`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.host.tasks import Tasks

T = TypeVar("T")


class GroupChanges:
    """Those under way; one for each group at most, so nobody who comes and goes leaves anything behind."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def is_under_way(self, group_id: str) -> bool:
        """Whether a group is being changed."""
        return group_id in self._under_way

    async def run(self, tasks: Tasks, group_id: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a change when those before it are over; once it has begun it goes on in `tasks`, also without its client.

        Raises CoordinatorFailed.
        """
        while group_id in self._under_way:
            await asyncio.wait((self._under_way[group_id],))

        def ended(_: asyncio.Task[Any]) -> None:
            del self._under_way[group_id]

        task = tasks.start(_outcome(change), name="share-group-change", on_end=ended)
        self._under_way[group_id] = task
        await asyncio.wait((task,))
        outcome = task.result()
        if isinstance(outcome, CoordinatorFailed):
            raise outcome
        return outcome


async def _outcome(change: Callable[[], Coroutine[Any, Any, T]]) -> T | CoordinatorFailed:
    """A refusal is a result: a task's error would be reported as a mistake."""
    try:
        return await change()
    except CoordinatorFailed as failed:
        return failed
