"""Groups that are looked at every few seconds: their last looks are kept, so that a rebalance that does not end is known without
waiting for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from oncelog.core.diagnosis.causes import NO_PARTITIONS, REBALANCING, Cause, causes, has_no_partitions, is_settled
from oncelog.core.diagnosis.facts import Facts, GroupFacts, GroupLook

LOOKS_MAX = 40
GAP_MS = 60_000  # nobody looked for so long: what is seen now may be another one's beginning
LASTING = (REBALANCING, NO_PARTITIONS)  # healthy for a moment: any group that starts has them


class GroupMemory:
    """The looks at each group since what is seen of it now began: a rebalance, or members that read nothing."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int, tuple[GroupLook, ...]]] = {}  # what it is, since when, the looks

    def seen(self, group: GroupFacts) -> GroupFacts:
        """The group with the looks at it before, as if somebody had watched it all that time."""
        was, since_ms, looks = self._seen.get(group.name, ("", 0, ()))
        now_ms = group.looks[-1].at_ms
        if looks and now_ms - looks[-1].at_ms > GAP_MS:
            was, looks = "", ()
        group = dataclasses.replace(group, looks=(*looks, *group.looks))
        looks = group.looks
        kind = REBALANCING if not is_settled(looks) else NO_PARTITIONS if has_no_partitions(group) else ""
        if kind != was:
            since_ms, looks = now_ms, looks[-2:]
        if not kind:
            looks = looks[-1:]
        elif len(looks) > LOOKS_MAX:
            looks = looks[1:]
        self._seen[group.name] = kind, since_ms, looks
        return dataclasses.replace(group, looks=looks, watched_ms=now_ms - since_ms)

    def is_watching(self, name: str) -> bool:
        """Whether the last look saw what may be a moment's."""
        return bool(self._seen.get(name, ("", 0, ()))[0])

    def keep(self, names: Collection[str]) -> None:
        """Forget all others."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}


def lasting_causes(facts: Facts, older_than_ms: int) -> tuple[Cause, ...]:
    """The causes, without what was seen of the group for less than `older_than_ms` and may be a moment's."""
    found = causes(facts, older_than_ms)
    if facts.group is None or facts.group.watched_ms >= max(older_than_ms, facts.group.settling_ms):
        return found
    return tuple(each for each in found if each.kind not in LASTING)
