"""Records of `__consumer_offsets` that hold groups of KIP-848, in Kafka's key and value formats (keys 3, 5 to 8, 16).

A member is three records: what it said of itself, what it is to have (target), and what it has (current). Each of them,
the two epochs of the group and each resolved pattern is deleted by a `Tombstone`. Key 4 (partition metadata) was
written before Apache Kafka 4.1 only; nothing in it is needed, so it reads as None.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field as plain_field
from enum import IntEnum
from typing import Any, cast

from oncelog.lazy_dataclass import dataclass
from oncelog.wire.schema import (
    EMPTY,
    Buffer,
    Bytes,
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

Partitions = Mapping[bytes, frozenset[int]]  # topic id -> partitions
EpochsOfPartitions = Mapping[bytes, Mapping[int, int]]  # topic id -> partition -> the member epoch it was given in


class ConsumerGroupKey(IntEnum):
    """The first two bytes of a key: what the record is about."""

    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET_MEMBER = 7
    CURRENT_MEMBER = 8
    REGULAR_EXPRESSION = 16


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a member of the classic protocol said that the new protocol has no place for."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # most preferred first


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """The group's epoch: it grows with each change that wants a new assignment. The hash is of its topics."""

    group_id: str
    group_epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member by its own words."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The group epoch that the targets were computed for, and when (ms since 1970; 0: not known)."""

    group_id: str
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class TargetMember:
    """What a member is to have."""

    group_id: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CurrentMember:
    """What a member has, and what it was asked to give back. `state` is a `MemberState`."""

    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: EpochsOfPartitions = plain_field(default_factory=dict)
    pending_revocation: EpochsOfPartitions = plain_field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern of the group matched, as of when (ms since 1970) and which state of the topics."""

    group_id: str
    regex: str
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes one of the above; `name` is the member id or the pattern."""

    key: ConsumerGroupKey
    group_id: str
    name: str = ""


ConsumerGroupRecord = (
    GroupEpoch | MemberMetadata | TargetEpoch | TargetMember | CurrentMember | ResolvedRegex | Tombstone
)
CONSUMER_GROUP_RECORDS = (
    GroupEpoch,
    MemberMetadata,
    TargetEpoch,
    TargetMember,
    CurrentMember,
    ResolvedRegex,
    Tombstone,
)


class ConsumerGroupMetadataKey(Struct, versions=(0, 0)):
    group_id: String


class ConsumerGroupMemberMetadataKey(Struct, versions=(0, 0)):
    group_id: String
    member_id: String


class ConsumerGroupRegularExpressionKey(Struct, versions=(0, 0)):
    group_id: String
    regular_expression: String


class ConsumerGroupMetadataValue(Struct, versions=(0, 0), flexible=0):
    group_epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol] = EMPTY


NO_CLASSIC_MEMBER = ClassicMemberMetadata(session_timeout_ms=0)


class ConsumerGroupMemberMetadataValue(Struct, versions=(0, 0), flexible=0):
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = EMPTY
    subscribed_topic_regex: String | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = None
    # Kafka's default is an empty one: null has to be written, and who left it out meant null as well (oncelog did).
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, default=NO_CLASSIC_MEMBER)


class ConsumerGroupTargetAssignmentMetadataValue(Struct, versions=(0, 0), flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32] = EMPTY


class ConsumerGroupTargetAssignmentMemberValue(Struct, versions=(0, 0), flexible=0):
    topic_partitions: list[TopicPartition] = EMPTY


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32] = EMPTY
    assignment_epochs: list[Int32] = field(tag=0, default=EMPTY)


class ConsumerGroupCurrentMemberAssignmentValue(Struct, versions=(0, 0), flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions] = EMPTY
    partitions_pending_revocation: list[TopicPartitions] = EMPTY


class ConsumerGroupRegularExpressionValue(Struct, versions=(0, 0), flexible=0):
    topics: list[String] = EMPTY
    version: Int64
    timestamp: Int64


def to_key_value(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value to append; the value of a tombstone is None."""
    match record:
        case Tombstone():
            return _key(record.key, record.group_id, record.name), None
        case GroupEpoch():
            value: Struct = ConsumerGroupMetadataValue(
                group_epoch=record.group_epoch, metadata_hash=record.metadata_hash
            )
            return _key(ConsumerGroupKey.GROUP_EPOCH, record.group_id), _value(value)
        case MemberMetadata():
            return _key(ConsumerGroupKey.MEMBER, record.group_id, record.member_id), _value(_member_value(record))
        case TargetEpoch():
            value = ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=record.assignment_epoch, assignment_timestamp=record.assignment_timestamp_ms
            )
            return _key(ConsumerGroupKey.TARGET_EPOCH, record.group_id), _value(value)
        case TargetMember():
            value = ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in sorted(record.partitions.items())
                ]
            )
            return _key(ConsumerGroupKey.TARGET_MEMBER, record.group_id, record.member_id), _value(value)
        case CurrentMember():
            value = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=record.member_epoch,
                previous_member_epoch=record.previous_member_epoch,
                state=record.state,
                assigned_partitions=_with_epochs(record.assigned),
                partitions_pending_revocation=_with_epochs(record.pending_revocation),
            )
            return _key(ConsumerGroupKey.CURRENT_MEMBER, record.group_id, record.member_id), _value(value)
        case ResolvedRegex():
            value = ConsumerGroupRegularExpressionValue(
                topics=list(record.topics), version=record.version, timestamp=record.timestamp_ms
            )
            return _key(ConsumerGroupKey.REGULAR_EXPRESSION, record.group_id, record.regex), _value(value)


def from_key_value(version: int, key: Buffer, value: Buffer | None) -> ConsumerGroupRecord | None:
    """The record of a key (without its version) and a value, None for kinds that are not ours. Raises
    MalformedMessage."""
    if version not in _READERS:
        return None
    kind = ConsumerGroupKey(version)
    group_id, name = _read_key(kind, key)
    if value is None:
        return Tombstone(kind, group_id, name)
    return _READERS[kind](group_id, name, memoryview(value)[2:])


_GROUP_KEYS = (ConsumerGroupKey.GROUP_EPOCH, ConsumerGroupKey.TARGET_EPOCH)


def _key(kind: ConsumerGroupKey, group_id: str, name: str = "") -> bytes:
    message: Struct
    if kind in _GROUP_KEYS:
        message = ConsumerGroupMetadataKey(group_id=group_id)
    elif kind is ConsumerGroupKey.REGULAR_EXPRESSION:
        message = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=name)
    else:
        message = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name)
    return kind.to_bytes(2, "big") + encode_message(message, 0)


def _read_key(kind: ConsumerGroupKey, key: Buffer) -> tuple[str, str]:
    if kind in _GROUP_KEYS:
        return decode_message(ConsumerGroupMetadataKey, 0, key).group_id, ""
    if kind is ConsumerGroupKey.REGULAR_EXPRESSION:
        regex_key = decode_message(ConsumerGroupRegularExpressionKey, 0, key)
        return regex_key.group_id, regex_key.regular_expression
    member_key = decode_message(ConsumerGroupMemberMetadataKey, 0, key)
    return member_key.group_id, member_key.member_id


def _value(message: Struct) -> bytes:
    return VALUE_VERSION.to_bytes(2, "big") + encode_message(message, VALUE_VERSION)


def _member_value(record: MemberMetadata) -> ConsumerGroupMemberMetadataValue:
    classic = None
    if record.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=record.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in record.classic.protocols
            ],
        )
    return ConsumerGroupMemberMetadataValue(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=list(record.topic_names),
        subscribed_topic_regex=record.topic_regex,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.server_assignor,
        classic_member_metadata=classic,
    )


def _with_epochs(partitions: EpochsOfPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic_id, epochs in sorted(partitions.items())
    ]


def _epochs(topics: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    found = {}
    for each in topics:
        # Before Apache Kafka 4.3 a partition's epoch was the member's.
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        found[bytes(each.topic_id)] = dict(zip(each.partitions, epochs, strict=False))
    return found


def _read_epoch(group_id: str, _name: str, data: Buffer) -> GroupEpoch:
    value = decode_message(ConsumerGroupMetadataValue, VALUE_VERSION, data)
    return GroupEpoch(group_id, value.group_epoch, value.metadata_hash)


def _read_member(group_id: str, name: str, data: Buffer) -> MemberMetadata:
    value = decode_message(ConsumerGroupMemberMetadataValue, VALUE_VERSION, data)
    classic = value.classic_member_metadata
    return MemberMetadata(
        group_id=group_id,
        member_id=name,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None or classic == NO_CLASSIC_MEMBER
        else ClassicMember(
            classic.session_timeout_ms,
            tuple((each.name, bytes(cast("Buffer", each.metadata))) for each in classic.supported_protocols),
        ),
    )


def _read_target_epoch(group_id: str, _name: str, data: Buffer) -> TargetEpoch:
    value = decode_message(ConsumerGroupTargetAssignmentMetadataValue, VALUE_VERSION, data)
    return TargetEpoch(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(group_id: str, name: str, data: Buffer) -> TargetMember:
    value = decode_message(ConsumerGroupTargetAssignmentMemberValue, VALUE_VERSION, data)
    return TargetMember(
        group_id, name, {bytes(each.topic_id): frozenset(each.partitions) for each in value.topic_partitions}
    )


def _read_current(group_id: str, name: str, data: Buffer) -> CurrentMember:
    value = decode_message(ConsumerGroupCurrentMemberAssignmentValue, VALUE_VERSION, data)
    return CurrentMember(
        group_id,
        name,
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_regex(group_id: str, name: str, data: Buffer) -> ResolvedRegex:
    value = decode_message(ConsumerGroupRegularExpressionValue, VALUE_VERSION, data)
    return ResolvedRegex(group_id, name, tuple(value.topics), value.version, value.timestamp)


_READERS: dict[int, Callable[[str, str, Any], ConsumerGroupRecord]] = {
    ConsumerGroupKey.GROUP_EPOCH: _read_epoch,
    ConsumerGroupKey.MEMBER: _read_member,
    ConsumerGroupKey.TARGET_EPOCH: _read_target_epoch,
    ConsumerGroupKey.TARGET_MEMBER: _read_target,
    ConsumerGroupKey.CURRENT_MEMBER: _read_current,
    ConsumerGroupKey.REGULAR_EXPRESSION: _read_regex,
}
