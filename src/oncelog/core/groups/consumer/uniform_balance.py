"""The uniform assignor where members read different topics: fill up, then move from the fullest to the emptiest.

Topic by topic, those with many partitions per reader first. A topic is balanced when its readers' totals differ by one
at most or when those with more have none of its partitions; one topic can upset another, so the topics are gone through
again until nothing moves (at most a few times: an almost equal share is worth no more time).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

ROUNDS_MAX = 16

Owners = dict[str, list[str | None]]  # topic -> owner of each partition


class _Level:
    """Readers in the order of their loads, and of these the ones on the lowest (or highest) level."""

    def __init__(self, readers: Sequence[str], loads: Mapping[str, int], ranks: Mapping[str, int]) -> None:
        self._loads = dict(loads)  # of the beginning: what the levels are counted from
        self._sorted = sorted(readers, key=lambda each: (loads[each], ranks[each]))
        self._low_end, self._low_next, self.low_count = 0, 0, self._load(0) - 1
        size = len(self._sorted)
        self._high_start, self._high_end, self._high_next = size, size, size - 1
        self.high_count = self._load(-1) + 1

    def _load(self, index: int) -> int:
        return self._loads[self._sorted[index]]

    def take_lowest(self) -> str:
        """Who gets the next partition: each reader of the lowest level once, then the level rises and widens."""
        if self._low_next >= self._low_end:
            self.low_count += 1
            while self._low_end < len(self._sorted) and self._load(self._low_end) == self.low_count:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._sorted[self._low_next - 1]

    def take_highest(self) -> str | None:
        """Who gives the next partition away; None where nobody can."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # All of the level were passed over: go on with the next lower one, wherever it is.
                self.high_count = self._load(self._high_start - 1)
            else:
                self.high_count -= 1
            while self._high_start > 0 and self._load(self._high_start - 1) == self.high_count:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def pass_over_highest(self) -> None:
        """The reader that `take_highest` gave has nothing to give away: it leaves the level."""
        at, last = self._high_next + 1, self._high_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._high_end -= 1

    def differs(self) -> bool:
        """Whether another move may help."""
        return self.high_count - self.low_count > 1


def balance_unequal(owners: Owners, member_ids: Sequence[str], readers: Mapping[str, Sequence[str]]) -> None:
    """Gives every partition an owner among its topic's readers. `owners` holds what is kept, and is changed."""
    ranks = {member_id: rank for rank, member_id in enumerate(member_ids)}
    loads = Counter(dict.fromkeys(member_ids, 0))
    loads.update(owner for owned in owners.values() for owner in owned if owner is not None)
    topics = sorted(owners, key=lambda each: (-len(owners[each]) / len(readers[each]), len(readers[each]), each))
    for topic in topics:
        level = _Level(readers[topic], loads, ranks)
        for partition, owner in enumerate(owners[topic]):
            if owner is None:
                _give(owners[topic], partition, level.take_lowest(), loads)
    shared = [topic for topic in topics if len(readers[topic]) >= 2]
    since_moved = 0
    for topic in shared * ROUNDS_MAX:
        since_moved = 0 if _balance_topic(owners[topic], readers[topic], loads, ranks) else since_moved + 1
        if since_moved >= len(shared):
            return  # once around, and nothing has moved since


def _balance_topic(
    owned: list[str | None], readers: Sequence[str], loads: Counter[str], ranks: Mapping[str, int]
) -> bool:
    if max(loads[each] for each in readers) - min(loads[each] for each in readers) <= 1:
        return False
    level = _Level(readers, loads, ranks)
    to_give: dict[str, list[int]] = {}
    for partition, owner in enumerate(owned):
        assert owner is not None
        to_give.setdefault(owner, []).append(partition)
    has_moved = False
    while level.differs():
        giver = level.take_highest()
        while giver is not None and not to_give.get(giver):
            level.pass_over_highest()
            giver = level.take_highest()
        if giver is None:
            break
        taker = level.take_lowest()
        if not level.differs():
            break
        loads[giver] -= 1
        _give(owned, to_give[giver].pop(), taker, loads)
        has_moved = True
    return has_moved


def _give(owned: list[str | None], partition: int, member_id: str, loads: Counter[str]) -> None:
    owned[partition] = member_id
    loads[member_id] += 1
