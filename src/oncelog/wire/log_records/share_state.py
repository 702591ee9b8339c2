"""Records of `__share_group_state`, in Kafka's key and value formats: a snapshot of a share partition, or what changed since.

An update adds to what stands before it, so unlike other coordinators' this log is read whole and never compacted.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.errors import MalformedMessage
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.schema import (
    EMPTY,
    Buffer,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    decode_message,
    encode_message,
    field,
)
from oncelog.wire.uuids import uuid_text

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
VALUE_VERSION = 0
NOT_UPDATED = -1  # a start offset in an update
UNINITIALIZED = -1  # a start offset in a snapshot: nobody has fetched yet
NOT_COUNTED = -1


class ShareKey(NamedTuple):
    """A share partition: what one group has of one partition."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class StoredBatch(NamedTuple):
    """Offsets first..last and what became of them; `state` is a `RecordState`'s number."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """Everything about a share partition; times are ms since 1970."""

    key: ShareKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[StoredBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """What changed since the snapshot of the same epoch and the updates before this one."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StoredBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareStateDeleted:
    """The tombstone of a share partition."""

    key: ShareKey


ShareStateRecord = ShareSnapshot | ShareUpdate | ShareStateDeleted


class ShareStateKey(Struct, versions=(0, 1)):
    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(Struct, versions=(0, 0), flexible=0):
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=NOT_COUNTED)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch] = EMPTY


class ShareUpdateValue(Struct, versions=(0, 0), flexible=0):
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=NOT_COUNTED)
    state_batches: list[StateBatch] = EMPTY


def record_to_key_value(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
    """The key and the value to append."""
    if isinstance(record, ShareStateDeleted):
        return _key(SNAPSHOT_KEY, record.key), None
    if isinstance(record, ShareUpdate):
        value: Struct = ShareUpdateValue(
            snapshot_epoch=record.snapshot_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.complete_count,
            state_batches=_to_wire(record.batches),
        )
        return _key(UPDATE_KEY, record.key), _value(value)
    value = ShareSnapshotValue(
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.complete_count,
        create_timestamp=record.create_timestamp_ms,
        write_timestamp=record.write_timestamp_ms,
        state_batches=_to_wire(record.batches),
    )
    return _key(SNAPSHOT_KEY, record.key), _value(value)


def record_from_key_value(key: Buffer | None, value: Buffer | None) -> ShareStateRecord | None:
    """The record of a stored key and value, None for kinds that nobody knows yet. Raises MalformedMessage."""
    if key is None:
        return None
    version, rest = _split(key)
    if version not in (SNAPSHOT_KEY, UPDATE_KEY):
        return None
    decoded = decode_message(ShareStateKey, version, rest)
    share_key = ShareKey(decoded.group_id, bytes(decoded.topic_id), decoded.partition)
    if value is None:
        return ShareStateDeleted(share_key)
    _, data = _split(value)
    if version == UPDATE_KEY:
        update = decode_message(ShareUpdateValue, VALUE_VERSION, data)
        return ShareUpdate(
            share_key,
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _from_wire(update.state_batches),
        )
    snapshot = decode_message(ShareSnapshotValue, VALUE_VERSION, data)
    return ShareSnapshot(
        share_key,
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        snapshot.create_timestamp,
        snapshot.write_timestamp,
        _from_wire(snapshot.state_batches),
    )


def _key(version: int, key: ShareKey) -> bytes:
    message = ShareStateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return version.to_bytes(2, "big") + encode_message(message, version)


def _value(message: Struct) -> bytes:
    return VALUE_VERSION.to_bytes(2, "big") + encode_message(message, VALUE_VERSION)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < 2:
        raise MalformedMessage(f"a record of {len(view)} bytes has no version")
    return int.from_bytes(view[:2], "big", signed=True), view[2:]


def _to_wire(batches: tuple[StoredBatch, ...]) -> list[StateBatch]:
    return [
        StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]


def _from_wire(batches: list[StateBatch]) -> tuple[StoredBatch, ...]:
    return tuple(
        StoredBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    )
