"""How the leader of a classic group shares out partitions: range, round-robin, sticky, cooperative-sticky (KIP-429).

Pure functions of the members' subscriptions and the topics' partition counts, equal to Apache Kafka's for range and
round-robin. The sticky ones keep what members have where balance allows. Eager members give everything back before they
join, so `sticky` goes by what they remember in its user data; cooperative ones keep reading, so a partition that changes
hands is withheld until its old owner has revoked it and joined again. Racks are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Protocol

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import (
    Assignment,
    Subscription,
    assignment_to_bytes,
    sticky_memory,
    sticky_user_data,
    subscription_from_bytes,
)
from oncelog.wire.messages.join_group import JoinGroupResponseMember

Shares = dict[str, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member as its leader knows it."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members come first and keep their rank over restarts (KIP-345)."""
        instance_id = self.group_instance_id
        return (True, self.member_id) if instance_id is None else (False, instance_id)


class Assignor(Protocol):
    """One way to share out."""

    @property
    def name(self) -> str:
        """The protocol name in JoinGroup."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they have while a rebalance runs."""
        ...

    def assign(self, members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> Shares:
        """Every member's partitions; topics without an entry in `partition_counts` do not exist."""
        ...


class RangeAssignor:
    """Topic by topic, contiguous ranges; the first members get one more where it does not divide."""

    name = "range"
    is_cooperative = False

    def assign(self, members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> Shares:
        """See `Assignor.assign`."""
        shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        for topic, readers in _readers(members, partition_counts).items():
            size, more = divmod(partition_counts[topic], len(readers))
            start = 0
            for index, member in enumerate(readers):
                end = start + size + (index < more)
                shares[member.member_id] += [TopicPartition(topic, each) for each in range(start, end)]
                start = end
        return _frozen(shares)


class RoundRobinAssignor:
    """All partitions of all topics in turn, passing over members that do not read the topic."""

    name = "roundrobin"
    is_cooperative = False

    def assign(self, members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> Shares:
        """See `Assignor.assign`."""
        shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        turns = cycle(sorted(members, key=lambda member: member.rank))
        for topic in sorted(_readers(members, partition_counts)):
            for partition in range(partition_counts[topic]):
                member = next(each for each in turns if topic in each.subscription.topics)
                shares[member.member_id].append(TopicPartition(topic, partition))
        return _frozen(shares)


class StickyAssignor:
    """As balanced as the subscriptions allow, then as before as that allows; all give back first (KIP-54)."""

    name = "sticky"
    is_cooperative = False

    def assign(self, members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> Shares:
        """See `Assignor.assign`."""
        remembering = []
        for member in members:
            partitions, generation_id = sticky_memory(member.subscription.user_data)
            had = replace(member.subscription, owned_partitions=partitions, generation_id=generation_id)
            remembering.append(replace(member, subscription=had))
        readers = _readers(remembering, partition_counts)
        owners = _owners(remembering, readers, partition_counts)
        _share_out_rest(owners, readers, partition_counts)
        _balance(owners, readers, [each.member_id for each in members])
        shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        for topic_partition, owner in owners.items():
            shares[owner].append(topic_partition)
        return _frozen(shares)


class CooperativeStickyAssignor:
    """As balanced as the subscriptions allow, then with as little movement as that allows."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> Shares:
        """See `Assignor.assign`. Partitions that change hands are withheld until the next rebalance."""
        readers = _readers(members, partition_counts)
        owners = _owners(members, readers, partition_counts)
        _share_out_rest(owners, readers, partition_counts)
        _balance(owners, readers, [each.member_id for each in members])
        claims: dict[TopicPartition, set[str]] = {}
        for member in members:
            for owned in member.subscription.owned_partitions:
                claims.setdefault(owned, set()).add(member.member_id)
        shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        for topic_partition, owner in owners.items():
            if claims.get(topic_partition, set()) <= {owner}:
                shares[owner].append(topic_partition)
        return _frozen(shares)


ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}


def user_data(assignor_name: str, partitions: tuple[TopicPartition, ...], generation_id: int) -> bytes | None:
    """What a member tells this assignor beside its subscription: the assignment it had last."""
    return sticky_user_data(partitions, generation_id) if assignor_name == StickyAssignor.name else None


def assign_joined(
    assignor: Assignor, members: Iterable[JoinGroupResponseMember], partition_counts: Mapping[str, int]
) -> dict[str, bytes]:
    """What the leader sends in SyncGroup: member id -> assignment, from the members of its JoinGroup response.

    Raises MalformedMessage where a member's metadata is not that of a consumer.
    """
    known = [
        AssignedMember(each.member_id, subscription_from_bytes(each.metadata), each.group_instance_id)
        for each in members
    ]
    shares = assignor.assign(known, partition_counts)
    return {member_id: assignment_to_bytes(Assignment(partitions)) for member_id, partitions in shares.items()}


def _readers(members: Sequence[AssignedMember], partition_counts: Mapping[str, int]) -> dict[str, list[AssignedMember]]:
    """Existing topic -> the members that read it, by rank."""
    readers: dict[str, list[AssignedMember]] = {}
    for member in sorted(members, key=lambda each: each.rank):
        for topic in dict.fromkeys(member.subscription.topics):
            if topic in partition_counts:
                readers.setdefault(topic, []).append(member)
    return readers


def _owners(
    members: Sequence[AssignedMember],
    readers: Mapping[str, list[AssignedMember]],
    partition_counts: Mapping[str, int],
) -> dict[TopicPartition, str]:
    """What each member rightly has now: KIP-792, the claim of the newest generation counts, and two equal ones cancel."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in members:
        for owned in member.subscription.owned_partitions:
            may_read = owned.partition < partition_counts.get(owned.topic, 0)
            if may_read and any(each is member for each in readers.get(owned.topic, ())):
                claims.setdefault(owned, []).append((member.subscription.generation_id, member.member_id))
    owners = {}
    for topic_partition, claimed in claims.items():
        newest = max(generation_id for generation_id, _ in claimed)
        rightful = [member_id for generation_id, member_id in claimed if generation_id == newest]
        if len(rightful) == 1:
            owners[topic_partition] = rightful[0]
    return owners


def _share_out_rest(
    owners: dict[TopicPartition, str],
    readers: Mapping[str, list[AssignedMember]],
    partition_counts: Mapping[str, int],
) -> None:
    """Gives what nobody has to the least loaded reader, topics with few readers first."""
    loads = Counter(owners.values())
    for topic in sorted(readers, key=lambda each: (len(readers[each]), each)):
        for partition in range(partition_counts[topic]):
            topic_partition = TopicPartition(topic, partition)
            if topic_partition not in owners:
                reader = min(readers[topic], key=lambda each: loads[each.member_id])
                owners[topic_partition] = reader.member_id
                loads[reader.member_id] += 1


def _balance(
    owners: dict[TopicPartition, str], readers: Mapping[str, list[AssignedMember]], member_ids: Iterable[str]
) -> None:
    """Moves partitions to readers that have at least two fewer, until none has. Each move makes the shares more equal,
    so this ends; each is from the fullest member that can give one, so nobody gives up what it would get back."""
    held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in member_ids}
    for topic_partition in sorted(owners):
        held[owners[topic_partition]].append(topic_partition)
    while (move := _useful_move(held, readers)) is not None:
        owner, topic_partition, reader = move
        held[owner].remove(topic_partition)
        held[reader].append(topic_partition)
        owners[topic_partition] = reader


def _useful_move(
    held: Mapping[str, list[TopicPartition]], readers: Mapping[str, list[AssignedMember]]
) -> tuple[str, TopicPartition, str] | None:
    """Owner, partition, reader that has at least two fewer; None where all is balanced."""
    emptiest: dict[str, str] = {}
    for owner, partitions in sorted(held.items(), key=lambda each: -len(each[1])):
        for topic_partition in reversed(partitions):
            topic = topic_partition.topic
            if topic not in emptiest:
                emptiest[topic] = min((each.member_id for each in readers[topic]), key=lambda one: len(held[one]))
            reader = emptiest[topic]
            if len(partitions) >= len(held[reader]) + 2:
                return owner, topic_partition, reader
    return None


def _frozen(shares: dict[str, list[TopicPartition]]) -> Shares:
    return {member_id: tuple(sorted(partitions)) for member_id, partitions in shares.items()}
