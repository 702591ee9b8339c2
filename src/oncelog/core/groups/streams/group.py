"""One streams group (KIP-1071): members, epochs, targets, topology, as the records of the log say.

Only `replay` changes what the log holds: when a decision's records are appended, and in recovery. What is soft (timers, the
configured topology, who asked to shut down, the epoch of endpoints) lives beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from oncelog.core.groups.member_timers import MemberTimers
from oncelog.core.groups.streams.member import StreamsGroupMember
from oncelog.core.groups.streams.tasks import NO_TASKS
from oncelog.core.groups.streams.topology import ConfiguredTopology, Topology
from oncelog.wire.log_records.streams_groups import (
    NO_TOPOLOGY_EPOCH,
    AssignedTasks,
    Pairs,
    StreamsCurrentMember,
    StreamsGroupEpoch,
    StreamsGroupKey,
    StreamsGroupRecord,
    StreamsMemberMetadata,
    StreamsTargetEpoch,
    StreamsTargetMember,
    StreamsTombstone,
    StreamsTopologyRecord,
    TargetTasks,
)

Key = TypeVar("Key")
FIRST_ASSIGNMENT_EPOCH = 1  # of a group whose tasks were never shared out


class StreamsGroupState(Enum):
    """Kafka's names, as StreamsGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(MemberTimers):
    """The tables of one group."""

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        self.assignment_configs: Pairs = ()
        self.assignment_epoch = FIRST_ASSIGNMENT_EPOCH
        self.members: dict[str, StreamsGroupMember] = {}
        self.targets: dict[str, TargetTasks] = {}
        self.topology: Topology | None = None
        self.owners = TaskOwners()
        # soft
        self.initial_delay_ms: int | None = None  # when the first members have waited for others enough
        self.assigned_ms: int | None = None
        self.configured: ConfiguredTopology | None = None
        self.topics_version = -1  # of the topics that `configured` was made with
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0
        # what a member had before it was last told tasks, None once it has said that it has them; missing after a start
        self.had_before: dict[str, AssignedTasks | None] = {}

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> StreamsGroupState:
        """What the group is busy with."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.topology_epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def is_bare(self) -> bool:
        """Whether the log knows nothing of it any more."""
        return not self.members and self.group_epoch == 0

    def target_of(self, member_id: str) -> TargetTasks:
        """What the member is to have."""
        return self.targets.get(member_id, NO_TASKS)

    def subscribed_topics(self) -> set[str]:
        """The topics that the members read, existing or not."""
        return set(self.topology.readers) if self.topology is not None and self.members else set()

    def member_epoch_of(self, member_id: str) -> int | None:
        member = self.members.get(member_id)
        return None if member is None else member.member_epoch

    def next_deadline(self) -> int | None:
        deadline_ms = super().next_deadline()
        if deadline_ms is None or self.initial_delay_ms is None:
            return self.initial_delay_ms if deadline_ms is None else deadline_ms
        return min(deadline_ms, self.initial_delay_ms)

    # -- the log ---------------------------------------------------------------------------------------------------

    def replay(self, record: StreamsGroupRecord) -> None:
        """One record of the log, in its order."""
        match record:
            case StreamsGroupEpoch():
                self.group_epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
                self.validated_topology_epoch = record.validated_topology_epoch
                self.assignment_configs = record.assignment_configs or ()
            case StreamsMemberMetadata():
                self._put(self._member(record.member_id).with_metadata(record))
            case StreamsCurrentMember():
                self._put(self._member(record.member_id).with_current(record))
            case StreamsTargetEpoch():
                self.assignment_epoch = record.assignment_epoch
            case StreamsTargetMember():
                self.targets[record.member_id] = record.tasks
            case StreamsTopologyRecord():
                self.topology = Topology.of(record.topology_epoch, record.subtopologies)
            case StreamsTombstone():
                self._delete(record)

    def _member(self, member_id: str) -> StreamsGroupMember:
        return self.members.get(member_id) or StreamsGroupMember(member_id)

    def _put(self, member: StreamsGroupMember) -> None:
        self.owners.change(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def _delete(self, record: StreamsTombstone) -> None:
        match record.key:
            case StreamsGroupKey.MEMBER:
                self.owners.change(self.members.pop(record.name, None), None)
                self.forget_timers(record.name)
                self.had_before.pop(record.name, None)
                if not self.members:
                    self.shutdown_member_id = None
            case StreamsGroupKey.CURRENT_MEMBER:
                member = self.members.get(record.name)
                if member is not None:
                    gone = replace(member, member_epoch=-1, previous_member_epoch=-1)
                    self._put(replace(gone, assigned=AssignedTasks(), pending_revocation=AssignedTasks()))
            case StreamsGroupKey.TARGET_MEMBER:
                self.targets.pop(record.name, None)
            case StreamsGroupKey.TARGET_EPOCH:
                self.assignment_epoch = -1
            case StreamsGroupKey.TOPOLOGY:
                self.topology, self.configured = None, None
            case StreamsGroupKey.GROUP_EPOCH:
                self.group_epoch = 0
                self.validated_topology_epoch = NO_TOPOLOGY_EPOCH
            case StreamsGroupKey.PARTITION_METADATA:
                pass

    def tombstones(self) -> list[StreamsGroupRecord]:
        """What deletes the group, with every member; the order matters to Apache Kafka's replay."""
        keys = StreamsGroupKey
        records: list[StreamsGroupRecord] = []
        records += [StreamsTombstone(keys.CURRENT_MEMBER, self.group_id, each) for each in self.members]
        records += [StreamsTombstone(keys.TARGET_MEMBER, self.group_id, each) for each in self.members]
        records.append(StreamsTombstone(keys.TARGET_EPOCH, self.group_id))
        records += [StreamsTombstone(keys.MEMBER, self.group_id, each) for each in self.members]
        records.append(StreamsTombstone(keys.GROUP_EPOCH, self.group_id))
        records.append(StreamsTombstone(keys.TOPOLOGY, self.group_id))
        return records

    def member_tombstones(self, member_id: str) -> list[StreamsGroupRecord]:
        """What removes one member; the order matters to Apache Kafka's replay."""
        keys = StreamsGroupKey
        return [
            StreamsTombstone(key, self.group_id, member_id)
            for key in (keys.CURRENT_MEMBER, keys.TARGET_MEMBER, keys.MEMBER)
        ]


class TaskOwners:
    """Who has which task, giving back included: by task, and by task and process."""

    def __init__(self) -> None:
        self._active: Counter[tuple[str, int]] = Counter()
        self._active_on: Counter[tuple[str, int, str]] = Counter()
        self._passive_on: Counter[tuple[str, int, str]] = Counter()

    def change(self, before: StreamsGroupMember | None, after: StreamsGroupMember | None) -> None:
        """A member's tasks changed; None: it was not there, or is not any more."""
        if before is not None:
            self._count(before, -1)
        if after is not None:
            self._count(after, 1)

    def _count(self, member: StreamsGroupMember, difference: int) -> None:
        process_id = member.process_id
        for tasks in (member.assigned, member.pending_revocation):
            for name, partition in _listed(tasks.active.items()):
                _add(self._active, (name, partition), difference)
                _add(self._active_on, (name, partition, process_id), difference)
            for name, partition in (*_listed(tasks.standby.items()), *_listed(tasks.warmup.items())):
                _add(self._passive_on, (name, partition, process_id), difference)

    def is_active(self, subtopology: str, partition: int) -> bool:
        """Whether somebody has it actively."""
        return self._active[subtopology, partition] > 0

    def is_passive_on_process(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether a member of this process has it as standby or warm-up."""
        return self._passive_on[subtopology, partition, process_id] > 0

    def is_on_process(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether a member of this process has it, in whatever role."""
        if self._active_on[subtopology, partition, process_id] > 0:
            return True
        return self.is_passive_on_process(subtopology, partition, process_id)


def _listed(tasks: Iterable[tuple[str, Iterable[int]]]) -> list[tuple[str, int]]:
    return [(name, partition) for name, partitions in tasks for partition in partitions]


def _add(counter: Counter[Key], key: Key, difference: int) -> None:
    counter[key] += difference
    if counter[key] <= 0:
        del counter[key]
