"""The broker's assignors for groups of KIP-848: `uniform` (the default) and `range`.

They give what Apache Kafka 4.3 gives for the same members, topics and former targets, except where that depends on the
order of a Java hash table: members then go by their ids, topics by their names. Racks are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import islice

from oncelog.core.groups.consumer.uniform_balance import balance_unequal
from oncelog.lazy_dataclass import dataclass

Shares = dict[str, dict[str, frozenset[int]]]  # member id -> topic -> partitions


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: the existing topics it reads, and its former target. Topics go by name."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    former: Mapping[str, frozenset[int]] = field(default_factory=dict)


ServerAssignor = Callable[[Sequence[MemberSpec], Mapping[str, int]], Shares]


def assign_range(members: Sequence[MemberSpec], partition_counts: Mapping[str, int]) -> Shares:
    """Topic by topic contiguous ranges, so that the same member has the same partition numbers of each topic. Not
    sticky: static members come first, by instance id, then the others by member id."""
    ordered = sorted(members, key=_rank)
    shares: Shares = {each.member_id: {} for each in members}
    for topic, readers in readers_of(ordered).items():
        size, more = divmod(partition_counts[topic], len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + size + (index < more)
            if end > start:
                shares[member.member_id][topic] = frozenset(range(start, end))
            start = end
    return shares


def assign_uniform(members: Sequence[MemberSpec], partition_counts: Mapping[str, int]) -> Shares:
    """Shares that differ by one at most where all read the same topics, and as few moves as that allows."""
    ordered = sorted(members, key=lambda each: each.member_id)
    if not any(each.topics for each in ordered):
        return {each.member_id: {} for each in ordered}
    is_homogeneous = all(each.topics == ordered[0].topics for each in ordered)
    if is_homogeneous:
        return _uniform_equal(ordered, partition_counts)
    owners = _kept(ordered, partition_counts)
    readers = {topic: [each.member_id for each in found] for topic, found in readers_of(ordered).items()}
    balance_unequal(owners, [each.member_id for each in ordered], readers)
    return _shares(ordered, owners)


ASSIGNORS: dict[str, ServerAssignor] = {"uniform": assign_uniform, "range": assign_range}


def readers_of(members: Sequence[MemberSpec]) -> dict[str, list[MemberSpec]]:
    """Topic -> its readers in the members' order; topics by name."""
    topics = sorted({topic for member in members for topic in member.topics})
    return {topic: [each for each in members if topic in each.topics] for topic in topics}


def _rank(member: MemberSpec) -> tuple[bool, str]:
    """KIP-345: a static member keeps its place over restarts, so it goes by its instance id."""
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id


def _uniform_equal(members: Sequence[MemberSpec], partition_counts: Mapping[str, int]) -> Shares:
    """All read the same: each has a quota; what is above it is given up, and the free partitions fill the quotas in
    order: those that nobody had first."""
    topics = sorted(members[0].topics)
    quota, more = divmod(sum(partition_counts[topic] for topic in topics), len(members))
    had = {(topic, each) for member in members for topic, former in member.former.items() for each in former}
    free = [(topic, each) for topic in topics for each in range(partition_counts[topic]) if (topic, each) not in had]
    shares: Shares = {}
    room: dict[str, int] = {}
    for index, member in enumerate(members):
        left = quota + (index < more)
        kept: dict[str, frozenset[int]] = {}
        for topic in topics:
            former = [each for each in sorted(member.former.get(topic, ())) if each < partition_counts[topic]]
            if former[:left]:
                kept[topic] = frozenset(former[:left])
            free += [(topic, each) for each in former[left:]]
            left -= len(former[:left])
        shares[member.member_id], room[member.member_id] = kept, left
    rest = iter(free)
    for member_id, left in room.items():
        share = shares[member_id]
        for topic, partition in islice(rest, left):
            share[topic] = share.get(topic, frozenset()) | {partition}
    return shares


def _kept(members: Sequence[MemberSpec], partition_counts: Mapping[str, int]) -> dict[str, list[str | None]]:
    """Topic -> owner of each partition, as far as the former targets go."""
    topics = sorted({topic for member in members for topic in member.topics})
    owners: dict[str, list[str | None]] = {topic: [None] * partition_counts[topic] for topic in topics}
    for member in members:
        for topic in member.topics & member.former.keys():
            for partition in member.former[topic]:
                if partition < partition_counts[topic]:
                    owners[topic][partition] = member.member_id
    return owners


def _shares(members: Sequence[MemberSpec], owners: Mapping[str, Sequence[str | None]]) -> Shares:
    shares: Shares = {each.member_id: {} for each in members}
    for topic, owned in owners.items():
        by_owner: dict[str, set[int]] = {}
        for partition, owner in enumerate(owned):
            assert owner is not None
            by_owner.setdefault(owner, set()).add(partition)
        for owner, partitions in by_owner.items():
            shares[owner][topic] = frozenset(partitions)
    return shares
