"""Records of `__consumer_offsets` that hold share groups (KIP-932), in Kafka's key and value formats (keys 10 to 15).

A member is three records: what it said of itself, what it is to have (target), and what it has (current). Key 15 names the
partitions whose state in `__share_group_state` has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from oncelog.lazy_dataclass import dataclass
from oncelog.wire.schema import (
    EMPTY,
    Buffer,
    Int8,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    decode_message,
    encode_message,
    field,
)

VALUE_VERSION = 0
STABLE_MEMBER = 1  # Kafka's MemberState.STABLE: a share group's members have nothing to give back

Partitions = Mapping[bytes, frozenset[int]]  # topic id -> partitions


class ShareGroupKey(IntEnum):
    """The first two bytes of a key: what the record is about."""

    MEMBER = 10
    GROUP_EPOCH = 11
    TARGET_EPOCH = 12
    TARGET_MEMBER = 13
    CURRENT_MEMBER = 14
    STATE_PARTITIONS = 15


@dataclass(frozen=True, slots=True)
class ShareGroupEpoch:
    """The group's epoch: it grows with each change that wants a new assignment. The hash is of its topics."""

    group_id: str
    group_epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member by its own words."""

    group_id: str
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareTargetEpoch:
    """The group epoch that the targets were computed for, and when (ms since 1970; 0: not known)."""

    group_id: str
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareTargetMember:
    """What a member is to have."""

    group_id: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ShareCurrentMember:
    """What a member has."""

    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ShareStatePartitions:
    """The partitions whose state has begun, with their topics' names."""

    group_id: str
    partitions: Partitions
    topic_names: Mapping[bytes, str]


@dataclass(frozen=True, slots=True)
class ShareTombstone:
    """Deletes one of the above; `member_id` where it is about a member."""

    key: ShareGroupKey
    group_id: str
    member_id: str = ""


ShareGroupRecord = (
    ShareGroupEpoch
    | ShareMember
    | ShareTargetEpoch
    | ShareTargetMember
    | ShareCurrentMember
    | ShareStatePartitions
    | ShareTombstone
)
SHARE_GROUP_RECORDS = (
    ShareGroupEpoch,
    ShareMember,
    ShareTargetEpoch,
    ShareTargetMember,
    ShareCurrentMember,
    ShareStatePartitions,
    ShareTombstone,
)
_MEMBER_KEYS = (ShareGroupKey.MEMBER, ShareGroupKey.TARGET_MEMBER, ShareGroupKey.CURRENT_MEMBER)


class ShareGroupKeyOfGroup(Struct, versions=(0, 0)):
    group_id: String


class ShareGroupKeyOfMember(Struct, versions=(0, 0)):
    group_id: String
    member_id: String


class ShareGroupMetadataValue(Struct, versions=(0, 0), flexible=0):
    group_epoch: Int32
    metadata_hash: Int64


class ShareGroupMemberMetadataValue(Struct, versions=(0, 0), flexible=0):
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = EMPTY


class ShareGroupTargetAssignmentMetadataValue(Struct, versions=(0, 0), flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0, ignorable=True)


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32] = EMPTY


class ShareGroupTargetAssignmentMemberValue(Struct, versions=(0, 0), flexible=0):
    topic_partitions: list[TopicPartitions] = EMPTY


class ShareGroupCurrentMemberAssignmentValue(Struct, versions=(0, 0), flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions] = EMPTY


class TopicPartitionsInfo(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32] = EMPTY


class TopicInfo(Struct):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(Struct, versions=(0, 0), flexible=0):
    initializing_topics: list[TopicPartitionsInfo] = EMPTY
    initialized_topics: list[TopicPartitionsInfo] = EMPTY
    deleting_topics: list[TopicInfo] = EMPTY


def to_key_value(record: ShareGroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value to append; the value of a tombstone is None."""
    keys = ShareGroupKey
    match record:
        case ShareTombstone():
            return _key(record.key, record.group_id, record.member_id), None
        case ShareGroupEpoch():
            group_epoch = ShareGroupMetadataValue(group_epoch=record.group_epoch, metadata_hash=record.metadata_hash)
            return _key(keys.GROUP_EPOCH, record.group_id), _value(group_epoch)
        case ShareMember():
            member = ShareGroupMemberMetadataValue(
                rack_id=record.rack_id,
                client_id=record.client_id,
                client_host=record.client_host,
                subscribed_topic_names=list(record.topic_names),
            )
            return _key(keys.MEMBER, record.group_id, record.member_id), _value(member)
        case ShareTargetEpoch():
            target_epoch = ShareGroupTargetAssignmentMetadataValue(
                assignment_epoch=record.assignment_epoch, assignment_timestamp=record.assignment_timestamp_ms
            )
            return _key(keys.TARGET_EPOCH, record.group_id), _value(target_epoch)
        case ShareTargetMember():
            target = ShareGroupTargetAssignmentMemberValue(topic_partitions=_to_wire(record.partitions))
            return _key(keys.TARGET_MEMBER, record.group_id, record.member_id), _value(target)
        case ShareCurrentMember():
            current = ShareGroupCurrentMemberAssignmentValue(
                member_epoch=record.member_epoch,
                previous_member_epoch=record.previous_member_epoch,
                state=STABLE_MEMBER,
                assigned_partitions=_to_wire(record.partitions),
            )
            return _key(keys.CURRENT_MEMBER, record.group_id, record.member_id), _value(current)
        case ShareStatePartitions():
            return _key(keys.STATE_PARTITIONS, record.group_id), _value(_state_partitions(record))


def from_key_value(version: int, key: Buffer, value: Buffer | None) -> ShareGroupRecord:
    """The record of a key of this version (without it) and a value. Raises MalformedMessage."""
    kind = ShareGroupKey(version)
    group_id, member_id = _read_key(kind, key)
    if value is None:
        return ShareTombstone(kind, group_id, member_id)
    return _READERS[kind](group_id, member_id, memoryview(value)[2:])


def is_share_group_key(version: int) -> bool:
    """Whether a key of this version is of a share group."""
    return version in _READERS


def _key(kind: ShareGroupKey, group_id: str, member_id: str = "") -> bytes:
    message: Struct = ShareGroupKeyOfGroup(group_id=group_id)
    if kind in _MEMBER_KEYS:
        message = ShareGroupKeyOfMember(group_id=group_id, member_id=member_id)
    return kind.to_bytes(2, "big") + encode_message(message, 0)


def _read_key(kind: ShareGroupKey, key: Buffer) -> tuple[str, str]:
    if kind not in _MEMBER_KEYS:
        return decode_message(ShareGroupKeyOfGroup, 0, key).group_id, ""
    of_member = decode_message(ShareGroupKeyOfMember, 0, key)
    return of_member.group_id, of_member.member_id


def _value(message: Struct) -> bytes:
    return VALUE_VERSION.to_bytes(2, "big") + encode_message(message, VALUE_VERSION)


def _to_wire(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=each, partitions=sorted(found)) for each, found in sorted(partitions.items())]


def _from_wire(topics: list[TopicPartitions]) -> Partitions:
    return {bytes(each.topic_id): frozenset(each.partitions) for each in topics}


def _state_partitions(record: ShareStatePartitions) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        initialized_topics=[
            TopicPartitionsInfo(topic_id=each, topic_name=record.topic_names[each], partitions=sorted(found))
            for each, found in sorted(record.partitions.items())
        ]
    )


def _read_member(group_id: str, member_id: str, data: Buffer) -> ShareMember:
    value = decode_message(ShareGroupMemberMetadataValue, VALUE_VERSION, data)
    names = tuple(value.subscribed_topic_names)
    return ShareMember(group_id, member_id, value.rack_id, value.client_id, value.client_host, names)


def _read_epoch(group_id: str, _member_id: str, data: Buffer) -> ShareGroupEpoch:
    value = decode_message(ShareGroupMetadataValue, VALUE_VERSION, data)
    return ShareGroupEpoch(group_id, value.group_epoch, value.metadata_hash)


def _read_target_epoch(group_id: str, _member_id: str, data: Buffer) -> ShareTargetEpoch:
    value = decode_message(ShareGroupTargetAssignmentMetadataValue, VALUE_VERSION, data)
    return ShareTargetEpoch(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(group_id: str, member_id: str, data: Buffer) -> ShareTargetMember:
    value = decode_message(ShareGroupTargetAssignmentMemberValue, VALUE_VERSION, data)
    return ShareTargetMember(group_id, member_id, _from_wire(value.topic_partitions))


def _read_current(group_id: str, member_id: str, data: Buffer) -> ShareCurrentMember:
    value = decode_message(ShareGroupCurrentMemberAssignmentValue, VALUE_VERSION, data)
    assigned = _from_wire(value.assigned_partitions)
    return ShareCurrentMember(group_id, member_id, value.member_epoch, value.previous_member_epoch, assigned)


def _read_state_partitions(group_id: str, _member_id: str, data: Buffer) -> ShareStatePartitions:
    """What another broker was beginning counts as not begun: it is begun again, which changes nothing where it had."""
    value = decode_message(ShareGroupStatePartitionMetadataValue, VALUE_VERSION, data)
    return ShareStatePartitions(
        group_id,
        {bytes(each.topic_id): frozenset(each.partitions) for each in value.initialized_topics},
        {bytes(each.topic_id): each.topic_name for each in value.initialized_topics},
    )


_READERS: dict[int, Callable[[str, str, Any], ShareGroupRecord]] = {
    ShareGroupKey.MEMBER: _read_member,
    ShareGroupKey.GROUP_EPOCH: _read_epoch,
    ShareGroupKey.TARGET_EPOCH: _read_target_epoch,
    ShareGroupKey.TARGET_MEMBER: _read_target,
    ShareGroupKey.CURRENT_MEMBER: _read_current,
    ShareGroupKey.STATE_PARTITIONS: _read_state_partitions,
}
