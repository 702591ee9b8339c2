"""Records of `__consumer_offsets`: offset commits and group metadata, in Kafka's own key and value formats.

`record_to_key_value` writes the versions that Apache Kafka 4.3 writes (offset commit 4, 3 where the topic's id is not
known, 1 where the commit has an expiry of its own; group metadata 3). `record_from_key_value` reads all that it reads.
A deletion is a key without value. Records of KIP-848's groups are in `consumer_groups`, of KIP-1071's in `streams_groups`, of
KIP-932's in `share_groups`; other keys read as None.
"""

from typing import cast

from oncelog.errors import MalformedMessage
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from oncelog.wire.log_records import consumer_groups, share_groups, streams_groups
from oncelog.wire.log_records.consumer_groups import CONSUMER_GROUP_RECORDS, ConsumerGroupRecord
from oncelog.wire.log_records.share_groups import SHARE_GROUP_RECORDS, ShareGroupRecord
from oncelog.wire.log_records.streams_groups import STREAMS_GROUP_KEYS, STREAMS_GROUP_RECORDS, StreamsGroupRecord
from oncelog.wire.schema import (
    EMPTY,
    ZERO_UUID,
    Buffer,
    Bytes,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    decode_message,
    encode_message,
    field,
)

OFFSET_COMMIT_KEYS = (0, 1)
GROUP_METADATA_KEY = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_TOPIC_ID = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """One committed offset; times are ms since 1970, -1 where there is none.

    `producer_id` and `producer_epoch` are those of the batch when it is transactional (the offset then waits for its
    marker); they are in the batch's header, not in key or value.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_transactional(self) -> bool:
        """Whether a marker has to decide about it."""
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class OffsetDeleted:
    """The tombstone of an offset."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupMetadataMember:
    """A member of a logged generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One generation of a classic group, without members when it is empty."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    current_state_timestamp_ms: int
    members: tuple[GroupMetadataMember, ...]


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The tombstone of a group's metadata; its offsets have tombstones of their own."""

    group_id: str


ConsumerOffsetsRecord = (
    OffsetCommit
    | OffsetDeleted
    | GroupMetadata
    | GroupDeleted
    | ConsumerGroupRecord
    | StreamsGroupRecord
    | ShareGroupRecord
)


class OffsetCommitKey(Struct, versions=(0, 1)):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Struct, versions=(0, 4), flexible=4):
    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(since=1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = field(since=4, tag=0, default=ZERO_UUID, ignorable=True)


class GroupMetadataKey(Struct, versions=(2, 2)):
    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = field(since=3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(since=1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Struct, versions=(0, 4), flexible=4):
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(since=2, default=-1, ignorable=True)
    members: list[MemberMetadata] = EMPTY


def record_to_key_value(record: ConsumerOffsetsRecord) -> tuple[bytes, bytes | None]:
    """The key and the value to append; the value is None for a deletion."""
    if isinstance(record, CONSUMER_GROUP_RECORDS):
        return consumer_groups.to_key_value(record)
    if isinstance(record, STREAMS_GROUP_RECORDS):
        return streams_groups.to_key_value(record)
    if isinstance(record, SHARE_GROUP_RECORDS):
        return share_groups.to_key_value(record)
    if isinstance(record, OffsetCommit | OffsetDeleted):
        key = OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition)
        value = _offset_value(record) if isinstance(record, OffsetCommit) else None
        return _versioned(OFFSET_COMMIT_KEYS[-1], key), value
    group_key = _versioned(GROUP_METADATA_KEY, GroupMetadataKey(group=record.group_id))
    return group_key, _group_value(record) if isinstance(record, GroupMetadata) else None


def record_from_key_value(
    key: Buffer | None,
    value: Buffer | None,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> ConsumerOffsetsRecord | None:
    """The record of a stored key and value, None for kinds that are not ours.

    The producer is given for records of a transactional batch. Raises MalformedMessage.
    """
    if key is None:
        return None
    version, rest = _split(key)
    if version in OFFSET_COMMIT_KEYS:
        offset_key = decode_message(OffsetCommitKey, version, rest)
        if value is None:
            return OffsetDeleted(offset_key.group, offset_key.topic, offset_key.partition)
        return _offset_commit(offset_key, value, producer_id, producer_epoch)
    if version == GROUP_METADATA_KEY:
        group_id = decode_message(GroupMetadataKey, version, rest).group
        return GroupDeleted(group_id) if value is None else _group_metadata(group_id, value)
    if version in STREAMS_GROUP_KEYS:
        return streams_groups.from_key_value(version, rest, value)
    if share_groups.is_share_group_key(version):
        return share_groups.from_key_value(version, rest, value)
    return consumer_groups.from_key_value(version, rest, value)


def _versioned(version: int, message: Struct) -> bytes:
    return version.to_bytes(2, "big") + encode_message(message, version)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < 2:
        raise MalformedMessage(f"a record of {len(view)} bytes has no version")
    return int.from_bytes(view[:2], "big", signed=True), view[2:]


def _offset_value(record: OffsetCommit) -> bytes:
    if record.expire_timestamp_ms != NO_TIMESTAMP:
        version = OFFSET_VALUE_VERSION_WITH_EXPIRY
    elif record.topic_id != ZERO_UUID:
        version = OFFSET_VALUE_VERSION_WITH_TOPIC_ID
    else:
        version = OFFSET_VALUE_VERSION
    value = OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
        topic_id=record.topic_id,
    )
    return _versioned(version, value)


def _offset_commit(key: OffsetCommitKey, data: Buffer, producer_id: int, producer_epoch: int) -> OffsetCommit:
    version, rest = _split(data)
    value = decode_message(OffsetCommitValue, version, rest)
    return OffsetCommit(
        group_id=key.group,
        topic=key.topic,
        partition=key.partition,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def _group_value(record: GroupMetadata) -> bytes:
    members = [
        MemberMetadata(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout=each.rebalance_timeout_ms,
            session_timeout=each.session_timeout_ms,
            subscription=each.subscription,
            assignment=each.assignment,
        )
        for each in record.members
    ]
    value = GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation_id,
        protocol=record.protocol_name,
        leader=record.leader_id,
        current_state_timestamp=record.current_state_timestamp_ms,
        members=members,
    )
    return _versioned(GROUP_VALUE_VERSION, value)


def _group_metadata(group_id: str, data: Buffer) -> GroupMetadata:
    version, rest = _split(data)
    value = decode_message(GroupMetadataValue, version, rest)
    members = tuple(
        GroupMetadataMember(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            # Version 0 knew one timeout for both.
            rebalance_timeout_ms=each.session_timeout if version == 0 else each.rebalance_timeout,
            session_timeout_ms=each.session_timeout,
            subscription=bytes(cast("Buffer", each.subscription)),
            assignment=bytes(cast("Buffer", each.assignment)),
        )
        for each in value.members
    )
    return GroupMetadata(
        group_id=group_id,
        protocol_type=value.protocol_type,
        generation_id=value.generation,
        protocol_name=value.protocol,
        leader_id=value.leader,
        current_state_timestamp_ms=value.current_state_timestamp,
        members=members,
    )
