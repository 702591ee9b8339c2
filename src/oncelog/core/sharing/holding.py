"""What a member has of one partition, and what is to be said of it: every offset that it was given gets one answer, once.

Offsets that it was given and that hold no record (markers, what compaction took away) are gaps, and are said at once.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class Acknowledge(IntEnum):
    """What became of a record; the numbers of the wire."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Said(NamedTuple):
    """Offsets first..last: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


class Holding:
    """The offsets of one partition that the member has, and what is to be told of them."""

    def __init__(self) -> None:
        self._given: set[int] = set()  # nothing is said of them yet
        self._said: list[tuple[int, Acknowledge]] = []  # by offset, to be sent

    @property
    def has_news(self) -> bool:
        """Whether something is to be sent."""
        return bool(self._said)

    @property
    def has_said(self) -> bool:
        """Whether the application said something that was not sent."""
        return any(kind not in (Acknowledge.GAP, Acknowledge.RENEW) for _, kind in self._said)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be said or sent."""
        return not self._given and not self._said

    def given(self, offset: int) -> None:
        """The application gets this record."""
        self._given.add(offset)

    def has(self, offset: int) -> bool:
        """Whether the application has it, and has said nothing of it."""
        return offset in self._given

    def say(self, offset: int, kind: Acknowledge) -> bool:
        """What became of it; False where the member does not have it (any more). A renewed one is still to be said of."""
        if offset not in self._given:
            return False
        if kind is not Acknowledge.RENEW:
            self._given.discard(offset)
        insort(self._said, (offset, kind))
        return True

    def say_gaps(self, offsets: Iterable[int]) -> None:
        """These hold no record."""
        for offset in offsets:
            insort(self._said, (offset, Acknowledge.GAP))

    def lapse(self, offset: int) -> None:
        """Its lock is over: others may have it, and nothing can be said of it."""
        self._given.discard(offset)

    def take_said(self) -> list[Said]:
        """What is to be sent, in as few ranges as say the same; but for renewals."""
        told = [(offset, kind) for offset, kind in self._said if kind is not Acknowledge.RENEW]
        self._said = [each for each in self._said if each[1] is Acknowledge.RENEW]
        found: list[Said] = []
        for offset, kind in told:
            if found and found[-1].last_offset + 1 == offset and found[-1].types == (kind,):
                found[-1] = found[-1]._replace(last_offset=offset)
            else:
                found.append(Said(offset, offset, (kind,)))
        return found

    def take_renewed(self) -> list[int]:
        """The offsets whose lock is to be renewed: a request that renews asks for nothing else."""
        renewed = [offset for offset, kind in self._said if kind is Acknowledge.RENEW]
        self._said = [each for each in self._said if each[1] is not Acknowledge.RENEW]
        return sorted(set(renewed) & self._given)

    def forget(self) -> int:
        """The broker may have given everything to others; how many records that are."""
        count = len(self._given)
        self._given.clear()
        self._said.clear()
        return count
