"""One group of KIP-848: its members, its two epochs, its targets, as the records of the log say.

Only `replay` changes what the log holds: when a decision's records are appended, and in recovery. What is soft (timers,
what was looked at last) lives beside it. Requests are answered by `consumer_group_heartbeat` and, for members of the
classic protocol, by `consumer_group_classic`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Protocol

from oncelog.core.groups.consumer.member import ConsumerGroupMember
from oncelog.core.groups.member_timers import MemberTimers
from oncelog.core.metadata.cluster import Topic
from oncelog.wire.log_records.consumer_groups import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    CurrentMember,
    GroupEpoch,
    MemberMetadata,
    Partitions,
    ResolvedRegex,
    TargetEpoch,
    TargetMember,
    Tombstone,
)

NO_TARGET: Partitions = {}


class ConsumerGroupState(Enum):
    """Kafka's names, as ConsumerGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Topics(Protocol):
    """The topics of the cluster; `topics_version` changes whenever they do."""

    topics: dict[str, Topic]
    topics_by_id: dict[bytes, Topic]
    topics_version: int


class ConsumerGroup(MemberTimers):
    """The tables of one group."""

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._owners: Counter[tuple[bytes, int]] = Counter()
        # soft
        self.assigned_ms: int | None = None
        self.topics_version = -1  # of the topics that the hash was last compared with
        self.regexes_resolved_ms: int | None = None
        self.regexes_version = -1
        self.must_resolve_regexes = False

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """What the group is busy with."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_bare(self) -> bool:
        """Whether the log knows nothing of it any more."""
        return not self.members and self.group_epoch == 0

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """The member that this instance id stands for."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerGroupMember) -> Partitions:
        """The target of a member, or of the static member that it replaces."""
        member_id = self.static_members.get(member.instance_id, "") if member.instance_id is not None else ""
        return self.targets.get(member_id or member.member_id, NO_TARGET)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether a member has this partition, or has not given it back yet."""
        return self._owners[topic_id, partition] > 0

    def classic_members(self) -> list[ConsumerGroupMember]:
        """The members that speak the classic protocol."""
        return [each for each in self.members.values() if each.uses_classic_protocol]

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def topic_names_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Named topics and those that the member's pattern matched; a pattern not resolved yet matches none."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names.union(resolved.topics)

    def subscribed_topics(self, members: Iterable[ConsumerGroupMember] | None = None) -> set[str]:
        """The topics that these members (all of them) read, existing or not."""
        known = self.members.values() if members is None else members
        return {name for each in known for name in self.topic_names_of(each)}

    def with_member(self, member: ConsumerGroupMember) -> dict[str, ConsumerGroupMember]:
        """The members as they will be with this one, in the place of the static member that it replaces."""
        replaced = self.static_members.get(member.instance_id) if member.instance_id is not None else None
        members = {each: known for each, known in self.members.items() if each != replaced}
        members[member.member_id] = member
        return members

    def subscribers_of_regex(self, regex: str, without: str = "") -> int:
        """How many members, but for one, read by this pattern."""
        return sum(each.topic_regex == regex for each in self.members.values() if each.member_id != without)

    # -- the log ---------------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerGroupRecord) -> None:
        """One record of the log, in its order."""
        match record:
            case GroupEpoch():
                self.group_epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
            case MemberMetadata():
                self._put(self._member(record.member_id).with_metadata(record))
            case CurrentMember():
                self._put(self._member(record.member_id).with_current(record))
            case TargetEpoch():
                self.assignment_epoch = record.assignment_epoch
            case TargetMember():
                self.targets[record.member_id] = record.partitions
            case ResolvedRegex():
                self.regexes[record.regex] = record
            case Tombstone():
                self._delete(record)

    def _member(self, member_id: str) -> ConsumerGroupMember:
        return self.members.get(member_id) or ConsumerGroupMember(member_id)

    def _put(self, member: ConsumerGroupMember) -> None:
        self._release(member.member_id)
        self.members[member.member_id] = member
        self._owners.update(_keys(member))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _release(self, member_id: str) -> None:
        known = self.members.get(member_id)
        if known is not None:
            self._owners.subtract(_keys(known))
            for key in _keys(known):
                if self._owners[key] <= 0:
                    del self._owners[key]

    def _delete(self, record: Tombstone) -> None:
        match record.key:
            case ConsumerGroupKey.MEMBER:
                self._release(record.name)
                member = self.members.pop(record.name, None)
                if member is not None and self.static_members.get(member.instance_id or "") == record.name:
                    del self.static_members[member.instance_id or ""]
                self.forget_timers(record.name)
            case ConsumerGroupKey.CURRENT_MEMBER:
                member = self.members.get(record.name)
                if member is not None:
                    self._put(
                        replace(member, member_epoch=-1, previous_member_epoch=-1, assigned={}, pending_revocation={})
                    )
            case ConsumerGroupKey.TARGET_MEMBER:
                self.targets.pop(record.name, None)
            case ConsumerGroupKey.TARGET_EPOCH:
                self.assignment_epoch = -1
            case ConsumerGroupKey.REGULAR_EXPRESSION:
                self.regexes.pop(record.name, None)
            case ConsumerGroupKey.GROUP_EPOCH:
                self.group_epoch = 0
            case _:
                pass

    def tombstones(self) -> list[ConsumerGroupRecord]:
        """What deletes the group, with every member; the order matters to Apache Kafka's replay."""
        keys = ConsumerGroupKey
        records: list[ConsumerGroupRecord] = []
        records += [Tombstone(keys.CURRENT_MEMBER, self.group_id, each) for each in self.members]
        records += [Tombstone(keys.TARGET_MEMBER, self.group_id, each) for each in self.members]
        records.append(Tombstone(keys.TARGET_EPOCH, self.group_id))
        records += [Tombstone(keys.MEMBER, self.group_id, each) for each in self.members]
        records += [Tombstone(keys.REGULAR_EXPRESSION, self.group_id, each) for each in self.regexes]
        records.append(Tombstone(keys.GROUP_EPOCH, self.group_id))
        return records

    def member_tombstones(self, member_id: str) -> list[ConsumerGroupRecord]:
        """What removes one member; the order matters to Apache Kafka's replay."""
        keys = ConsumerGroupKey
        return [
            Tombstone(key, self.group_id, member_id) for key in (keys.CURRENT_MEMBER, keys.TARGET_MEMBER, keys.MEMBER)
        ]

    def member_epoch_of(self, member_id: str) -> int | None:
        member = self.members.get(member_id)
        return None if member is None else member.member_epoch


def metadata_hash(names: Iterable[str], topics: Mapping[str, Topic]) -> int:
    """A number that changes when one of these topics does: created, deleted, or more partitions. 0: none exists."""
    digest = hashlib.blake2b(digest_size=8)
    found = sorted(name for name in names if name in topics)
    for name in found:
        topic = topics[name]
        digest.update(f"{name}\0{topic.topic_id.hex()}\0{topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def _keys(member: ConsumerGroupMember) -> list[tuple[bytes, int]]:
    return [
        (topic_id, partition)
        for partitions in (member.assigned, member.pending_revocation)
        for topic_id, epochs in partitions.items()
        for partition in epochs
    ]
