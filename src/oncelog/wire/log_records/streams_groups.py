"""Records of `__consumer_offsets` that hold streams groups (KIP-1071), in Kafka's key and value formats (keys 17, 19 to 23).

As in `consumer_groups` a member is three records: what it said of itself, what it is to have (target), and what it has
(current); the group has its epoch, its target's epoch and its topology. Each is deleted by a `StreamsTombstone`. Key 18
(partition metadata) was written before Apache Kafka 4.1 only; nothing in it is needed, so it reads as None.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field as plain_field
from enum import IntEnum
from typing import Any

from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, Subtopology
from oncelog.wire.schema import (
    EMPTY,
    Buffer,
    Int8,
    Int32,
    Int64,
    String,
    Struct,
    decode_message,
    encode_message,
    field,
)

VALUE_VERSION = 0
NO_TOPOLOGY_EPOCH = -1

Tasks = Mapping[str, frozenset[int]]  # subtopology id -> partitions
EpochsOfTasks = Mapping[str, Mapping[int, int]]  # subtopology id -> partition -> the member epoch it was given in
Pairs = tuple[tuple[str, str], ...]


class StreamsGroupKey(IntEnum):
    """The first two bytes of a key: what the record is about."""

    GROUP_EPOCH = 17
    PARTITION_METADATA = 18
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET_MEMBER = 21
    CURRENT_MEMBER = 22
    TOPOLOGY = 23


STREAMS_GROUP_KEYS = frozenset(map(int, StreamsGroupKey))


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """The tasks that somebody is to have."""

    active: Tasks = plain_field(default_factory=dict)
    standby: Tasks = plain_field(default_factory=dict)
    warmup: Tasks = plain_field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """The tasks that somebody has; of an active one also since which epoch."""

    active: EpochsOfTasks = plain_field(default_factory=dict)
    standby: Tasks = plain_field(default_factory=dict)
    warmup: Tasks = plain_field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class StreamsGroupEpoch:
    """The group's epoch: it grows with each change that wants a new assignment. The hash is of its topics; the validated
    epoch is that of the topology whose topics are all there and fit."""

    group_id: str
    group_epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = NO_TOPOLOGY_EPOCH
    assignment_configs: Pairs | None = None


@dataclass(frozen=True, slots=True)
class StreamsMemberMetadata:
    """A member by its own words; `endpoint` is where its state can be asked for (host, port)."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Pairs = ()


@dataclass(frozen=True, slots=True)
class StreamsTargetEpoch:
    """The group epoch that the targets were computed for, and when (ms since 1970; 0: not known)."""

    group_id: str
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class StreamsTargetMember:
    """What a member is to have."""

    group_id: str
    member_id: str
    tasks: TargetTasks


@dataclass(frozen=True, slots=True)
class StreamsCurrentMember:
    """What a member has, and what it was asked to give back. `state` is a `MemberState`."""

    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: AssignedTasks = plain_field(default_factory=AssignedTasks)
    pending_revocation: AssignedTasks = plain_field(default_factory=AssignedTasks)


@dataclass(frozen=True, slots=True)
class StreamsTopologyRecord:
    """What the application reads, keeps and writes, as its first member said."""

    group_id: str
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class StreamsTombstone:
    """Deletes one of the above; `name` is the member id."""

    key: StreamsGroupKey
    group_id: str
    name: str = ""


StreamsGroupRecord = (
    StreamsGroupEpoch
    | StreamsMemberMetadata
    | StreamsTargetEpoch
    | StreamsTargetMember
    | StreamsCurrentMember
    | StreamsTopologyRecord
    | StreamsTombstone
)
STREAMS_GROUP_RECORDS = (
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetEpoch,
    StreamsTargetMember,
    StreamsCurrentMember,
    StreamsTopologyRecord,
    StreamsTombstone,
)


class StreamsGroupMetadataKey(Struct, versions=(0, 0)):
    group_id: String


class StreamsGroupMemberMetadataKey(Struct, versions=(0, 0)):
    group_id: String
    member_id: String


class StreamsGroupMetadataValue(Struct, versions=(0, 0), flexible=0):
    group_epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field(tag=0, default=NO_TOPOLOGY_EPOCH)
    last_assignment_configs: list[KeyValue] | None = field(tag=1, default=None)


class StreamsGroupMemberMetadataValue(Struct, versions=(0, 0), flexible=0):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = EMPTY


class StreamsGroupTargetAssignmentMetadataValue(Struct, versions=(0, 0), flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


class TargetTaskIds(Struct):
    subtopology_id: String
    partitions: list[Int32] = EMPTY


class StreamsGroupTargetAssignmentMemberValue(Struct, versions=(0, 0), flexible=0):
    active_tasks: list[TargetTaskIds] = EMPTY
    standby_tasks: list[TargetTaskIds] = EMPTY
    warmup_tasks: list[TargetTaskIds] = EMPTY


class CurrentTaskIds(Struct):
    subtopology_id: String
    partitions: list[Int32] = EMPTY
    assignment_epochs: list[Int32] | None = field(tag=0, default=None)


class StreamsGroupCurrentMemberAssignmentValue(Struct, versions=(0, 0), flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTaskIds] = EMPTY
    standby_tasks: list[CurrentTaskIds] = EMPTY
    warmup_tasks: list[CurrentTaskIds] = EMPTY
    active_tasks_pending_revocation: list[CurrentTaskIds] = EMPTY
    standby_tasks_pending_revocation: list[CurrentTaskIds] = EMPTY
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = EMPTY


class StreamsGroupTopologyValue(Struct, versions=(0, 0), flexible=0):
    """Its subtopologies are laid out as the heartbeat's."""

    topology_epoch: Int32
    subtopologies: list[Subtopology] = EMPTY


def to_key_value(record: StreamsGroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value to append; the value of a tombstone is None."""
    keys = StreamsGroupKey
    match record:
        case StreamsTombstone():
            return _key(record.key, record.group_id, record.name), None
        case StreamsGroupEpoch():
            value: Struct = StreamsGroupMetadataValue(
                group_epoch=record.group_epoch,
                metadata_hash=record.metadata_hash,
                validated_topology_epoch=record.validated_topology_epoch,
                last_assignment_configs=_key_values(record.assignment_configs),
            )
            return _key(keys.GROUP_EPOCH, record.group_id), _value(value)
        case StreamsMemberMetadata():
            return _key(keys.MEMBER, record.group_id, record.member_id), _value(_member_value(record))
        case StreamsTargetEpoch():
            value = StreamsGroupTargetAssignmentMetadataValue(
                assignment_epoch=record.assignment_epoch, assignment_timestamp=record.assignment_timestamp_ms
            )
            return _key(keys.TARGET_EPOCH, record.group_id), _value(value)
        case StreamsTargetMember():
            value = StreamsGroupTargetAssignmentMemberValue(
                active_tasks=_target_ids(record.tasks.active),
                standby_tasks=_target_ids(record.tasks.standby),
                warmup_tasks=_target_ids(record.tasks.warmup),
            )
            return _key(keys.TARGET_MEMBER, record.group_id, record.member_id), _value(value)
        case StreamsCurrentMember():
            return _key(keys.CURRENT_MEMBER, record.group_id, record.member_id), _value(_current_value(record))
        case StreamsTopologyRecord():
            value = StreamsGroupTopologyValue(
                topology_epoch=record.topology_epoch, subtopologies=list(record.subtopologies)
            )
            return _key(keys.TOPOLOGY, record.group_id), _value(value)


def from_key_value(version: int, key: Buffer, value: Buffer | None) -> StreamsGroupRecord | None:
    """The record of a key (without its version) and a value, None for kinds that are not ours. Raises
    MalformedMessage."""
    if version not in _READERS:
        return None
    kind = StreamsGroupKey(version)
    name = ""
    if kind in _GROUP_KEYS:
        group_id = decode_message(StreamsGroupMetadataKey, 0, key).group_id
    else:
        member_key = decode_message(StreamsGroupMemberMetadataKey, 0, key)
        group_id, name = member_key.group_id, member_key.member_id
    if value is None:
        return StreamsTombstone(kind, group_id, name)
    return _READERS[kind](group_id, name, memoryview(value)[2:])


_GROUP_KEYS = (StreamsGroupKey.GROUP_EPOCH, StreamsGroupKey.TARGET_EPOCH, StreamsGroupKey.TOPOLOGY)


def _key(kind: StreamsGroupKey, group_id: str, name: str = "") -> bytes:
    message: Struct = StreamsGroupMetadataKey(group_id=group_id)
    if kind not in _GROUP_KEYS:
        message = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=name)
    return kind.to_bytes(2, "big") + encode_message(message, 0)


def _value(message: Struct) -> bytes:
    return VALUE_VERSION.to_bytes(2, "big") + encode_message(message, VALUE_VERSION)


def _key_values(pairs: Pairs | None) -> list[KeyValue] | None:
    return None if pairs is None else [KeyValue(key=key, value=value) for key, value in pairs]


def _pairs(found: Iterable[KeyValue]) -> Pairs:
    return tuple((each.key, each.value) for each in found)


def _member_value(record: StreamsMemberMetadata) -> StreamsGroupMemberMetadataValue:
    endpoint = record.endpoint
    return StreamsGroupMemberMetadataValue(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        topology_epoch=record.topology_epoch,
        process_id=record.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_key_values(record.client_tags) or [],
    )


def _current_value(record: StreamsCurrentMember) -> StreamsGroupCurrentMemberAssignmentValue:
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=record.member_epoch,
        previous_member_epoch=record.previous_member_epoch,
        state=record.state,
        active_tasks=_active_ids(record.assigned.active),
        standby_tasks=_passive_ids(record.assigned.standby),
        warmup_tasks=_passive_ids(record.assigned.warmup),
        active_tasks_pending_revocation=_active_ids(record.pending_revocation.active),
        standby_tasks_pending_revocation=_passive_ids(record.pending_revocation.standby),
        warmup_tasks_pending_revocation=_passive_ids(record.pending_revocation.warmup),
    )


def _target_ids(tasks: Tasks) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _passive_ids(tasks: Tasks) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _active_ids(tasks: EpochsOfTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks)
    ]


def _tasks(found: Iterable[TargetTaskIds | CurrentTaskIds]) -> dict[str, frozenset[int]]:
    return {each.subtopology_id: frozenset(each.partitions) for each in found}


def _epochs(found: Iterable[CurrentTaskIds], member_epoch: int) -> dict[str, dict[int, int]]:
    """Before Apache Kafka 4.3 a task's epoch was the member's."""
    return {
        each.subtopology_id: dict(
            zip(
                each.partitions,
                [member_epoch] * len(each.partitions) if each.assignment_epochs is None else each.assignment_epochs,
                strict=False,
            )
        )
        for each in found
    }


def _read_epoch(group_id: str, _name: str, data: Buffer) -> StreamsGroupEpoch:
    value = decode_message(StreamsGroupMetadataValue, VALUE_VERSION, data)
    configs = value.last_assignment_configs
    return StreamsGroupEpoch(
        group_id,
        value.group_epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        None if configs is None else _pairs(configs),
    )


def _read_member(group_id: str, name: str, data: Buffer) -> StreamsMemberMetadata:
    value = decode_message(StreamsGroupMemberMetadataValue, VALUE_VERSION, data)
    endpoint = value.user_endpoint
    return StreamsMemberMetadata(
        group_id=group_id,
        member_id=name,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=_pairs(value.client_tags),
    )


def _read_target_epoch(group_id: str, _name: str, data: Buffer) -> StreamsTargetEpoch:
    value = decode_message(StreamsGroupTargetAssignmentMetadataValue, VALUE_VERSION, data)
    return StreamsTargetEpoch(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(group_id: str, name: str, data: Buffer) -> StreamsTargetMember:
    value = decode_message(StreamsGroupTargetAssignmentMemberValue, VALUE_VERSION, data)
    tasks = TargetTasks(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
    return StreamsTargetMember(group_id, name, tasks)


def _read_current(group_id: str, name: str, data: Buffer) -> StreamsCurrentMember:
    value = decode_message(StreamsGroupCurrentMemberAssignmentValue, VALUE_VERSION, data)
    assigned = AssignedTasks(
        _epochs(value.active_tasks, value.member_epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
    )
    pending = AssignedTasks(
        _epochs(value.active_tasks_pending_revocation, value.member_epoch),
        _tasks(value.standby_tasks_pending_revocation),
        _tasks(value.warmup_tasks_pending_revocation),
    )
    return StreamsCurrentMember(
        group_id, name, value.member_epoch, value.previous_member_epoch, value.state, assigned, pending
    )


def _read_topology(group_id: str, _name: str, data: Buffer) -> StreamsTopologyRecord:
    value = decode_message(StreamsGroupTopologyValue, VALUE_VERSION, data)
    return StreamsTopologyRecord(group_id, value.topology_epoch, tuple(value.subtopologies))


_READERS: dict[int, Callable[[str, str, Any], StreamsGroupRecord]] = {
    StreamsGroupKey.GROUP_EPOCH: _read_epoch,
    StreamsGroupKey.MEMBER: _read_member,
    StreamsGroupKey.TARGET_EPOCH: _read_target_epoch,
    StreamsGroupKey.TARGET_MEMBER: _read_target,
    StreamsGroupKey.CURRENT_MEMBER: _read_current,
    StreamsGroupKey.TOPOLOGY: _read_topology,
}
