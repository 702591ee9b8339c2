"""What groups stand still for, of all that there are: looked at some at a time, so that many cost the brokers no more than a few.

First those that are rebalancing, or were at the last look: what lasts is told by several looks. Then whoever was looked at
longest ago. What was found of a group is kept until it is looked at again, or is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.transactions.group_scope import AT_REST, GroupScope
from oncelog.cli.why.collecting import partition_facts
from oncelog.cli.why.looking import Looking
from oncelog.client.admin.groups import GroupListing
from oncelog.console.group_judging import GROUP_KINDS, GroupJudge, Positions, described, positions_of
from oncelog.core.diagnosis.causes import NO_MEMBERS
from oncelog.core.diagnosis.facts import NotRead, PartitionFacts
from oncelog.errors import KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition

EVERY_S = 10.0
GROUPS_MAX = 50  # in a look; half of them may be rebalancing
PARTITIONS_MAX = 5_000
PLACES_MAX = 20
KINDS = (*GROUP_KINDS, NO_MEMBERS)  # the most pressing first; transactions are told by who looks at partitions


@dataclass(frozen=True)
class GroupsFound:
    """What is known after a look. `causes`: rows of `oncelog why -o json` with the group's name."""

    causes: tuple[dict[str, Any], ...] = ()
    standing: int = 0
    looked_at: int = 0
    count: int = 0
    not_read: tuple[NotRead, ...] = ()


@dataclass
class GroupRounds:
    """Goes round all groups."""

    judge: GroupJudge
    _found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _unread: dict[str, NotRead] = field(default_factory=dict)
    _looks: dict[str, int] = field(default_factory=dict)
    """Of each group the number of the look that saw it last."""
    _count: int = 0

    async def look(self, looking: Looking, now_ms: int) -> GroupsFound:
        """One look at the next ones. Raises KafkaError where groups cannot be listed."""
        self._count += 1
        listed = {each.group_id: each for each in await looking.admin.list_groups()}
        self._forget(listed)
        chosen = self._next(list(listed.values()))
        positions = await positions_of(looking, chosen)
        missing = {each.what: each for each in looking.not_read}
        self._unread |= {name: missing[f"group {name}"] for name in chosen if name not in positions}
        scopes = await self._scopes(looking, positions)
        self._looks |= {name: self._count for name in chosen if name in scopes or name not in positions}
        unreadable: dict[TopicPartition, KafkaError] = {}
        everywhere = sorted({where for scope in scopes.values() for where in scope.partitions})
        bounds = await partition_bounds(looking.admin, everywhere, unreadable=unreadable) if everywhere else {}

        def facts_of(scope: GroupScope) -> tuple[PartitionFacts, ...]:
            return tuple(
                partition_facts(looking, scope, at, bounds.get(at), unreadable.get(at)) for at in scope.partitions
            )

        found = await self.judge.look(looking, scopes, facts_of, now_ms, listed)
        for name, rows in found.items():
            self._unread.pop(name, None)
            self._found[name] = [_short(row) for row in rows if row["kind"] in KINDS]
        return self._told(len(listed))

    def _forget(self, listed: Iterable[str]) -> None:
        names = set(listed)
        self._found = {name: rows for name, rows in self._found.items() if name in names}
        self._looks = {name: look for name, look in self._looks.items() if name in names}
        self._unread = {name: each for name, each in self._unread.items() if name in names}

    def _next(self, listed: Sequence[GroupListing]) -> list[str]:
        """Whom to look at: names."""
        order = sorted(listed, key=lambda each: (self._looks.get(each.group_id, 0), each.group_id))
        moving = [each.group_id for each in order if each.state not in AT_REST or self.judge.is_watching(each.group_id)]
        first = moving[: GROUPS_MAX // 2]
        taken = set(first)
        rest = [each.group_id for each in order if each.group_id not in taken]
        return [*first, *rest[: GROUPS_MAX - len(first)]]

    async def _scopes(self, looking: Looking, positions: Mapping[str, Positions]) -> dict[str, GroupScope]:
        """What they read, of so many partitions that one look may ask for; the others are looked at first the next time."""
        known = await described(looking.admin, list(positions))
        found: dict[str, GroupScope] = {}
        room = PARTITIONS_MAX
        for name, offsets in positions.items():
            stored: dict[TopicPartition, OffsetAndMetadata] = dict(offsets)
            group = known.get(name)
            members = () if group is None else group.members
            read = {*stored, *(where for member in members for where in member.partitions)}
            read = {
                at for at in read if at.topic in looking.topics and at.partition in looking.topics[at.topic].partitions
            }
            room -= len(read)
            if not found or room >= 0:
                found[name] = GroupScope(name, tuple(sorted(read)), stored, frozenset(), None, group)
        return found

    def _told(self, count: int) -> GroupsFound:
        rows = [row for each in self._found.values() for row in each]
        rows.sort(key=lambda row: (KINDS.index(row["kind"]), row["group"]))
        return GroupsFound(
            tuple(rows),
            sum(bool(each) for each in self._found.values()),
            len(self._looks),
            count,
            tuple(self._unread.values()),
        )


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Its text names some partitions, and a page of many groups needs no more."""
    return row | {"partitions": row["partitions"][:PLACES_MAX]}
