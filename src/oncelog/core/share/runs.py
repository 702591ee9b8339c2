"""Offsets in order, each with a state: neighbours that are alike are one run, so that ten thousand records may be one object."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """What a record is to its share group; the numbers of `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1  # by a member, for a time; never stored
    ACKNOWLEDGED = 2
    ARCHIVED = 4  # nobody gets it any more: rejected, delivered too often, or nothing is there


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Run(NamedTuple):
    """Offsets `first` to `last` (inclusive) that are alike."""

    first: int
    last: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    deadline_ms: int = 0

    @property
    def length(self) -> int:
        """How many offsets."""
        return self.last - self.first + 1

    @property
    def is_terminal(self) -> bool:
        """Whether nothing happens to them any more."""
        return self.state in TERMINAL

    def clipped(self, first: int, last: int) -> Run:
        """The part of it in first..last."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))


class Runs:
    """Runs in the order of their offsets; none overlap, and neighbours that are alike are one."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs: list[Run] = []
        for run in runs:
            self.put(run)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def _index(self, offset: int) -> int:
        """Of the run that holds `offset`, or of the first one behind it."""
        index = bisect_right(self._runs, offset, key=lambda run: run.first)
        return index - 1 if index and self._runs[index - 1].last >= offset else index

    def between(self, first: int, last: int) -> list[Run]:
        """What lies in first..last, cut there."""
        found = []
        for index in range(self._index(first), len(self._runs)):
            run = self._runs[index]
            if run.first > last:
                break
            found.append(run.clipped(first, last))
        return found

    def put(self, run: Run) -> None:
        """These offsets are so from now on, whatever they were."""
        index = self._index(run.first)
        end = index
        pieces = []
        while end < len(self._runs) and self._runs[end].first <= run.last:
            end += 1
        if index < end:
            head, tail = self._runs[index], self._runs[end - 1]
            if head.first < run.first:
                pieces.append(head._replace(last=run.first - 1))
            pieces.append(run)
            if tail.last > run.last:
                pieces.append(tail._replace(first=run.last + 1))
        else:
            pieces.append(run)
        low = max(index - 1, 0)
        high = min(end + 1, len(self._runs))
        self._runs[low:high] = _joined([*self._runs[low:index], *pieces, *self._runs[end:high]])

    def cut_before(self, offset: int) -> None:
        """Forget everything below `offset`."""
        index = self._index(offset)
        del self._runs[:index]
        if self._runs and self._runs[0].first < offset:
            self._runs[0] = self._runs[0]._replace(first=offset)


def _joined(runs: list[Run]) -> list[Run]:
    found: list[Run] = []
    for run in runs:
        if found and found[-1].last + 1 == run.first and found[-1][2:] == run[2:]:
            found[-1] = found[-1]._replace(last=run.last)
        else:
            found.append(run)
    return found
