"""The records of `__transaction_state`: one transactional id's last transaction, in Kafka's TransactionLogValue format.

A `TransactionRecord` is both a value of the log and the coordinator's memory of the id. Value version 1 (tagged fields)
is written when `transaction.version` is 1 or more; version 0 has no room for tags. Tags 0..3 are Kafka's; 10000 and 10001
are ours and skipped by Kafka: `last_producer_epoch`, which KIP-360 wants persisted, and `committed_on_condition`. A two-phase
transaction has the timeout 2147483647 on disk, as Apache Kafka writes it; KIP-939's -1 is accepted when read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import IntEnum
from functools import lru_cache
from struct import Struct as Layout
from typing import NamedTuple

from oncelog.errors import MalformedMessage
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from oncelog.wire import schema
from oncelog.wire.schema import Int8, Int16, Int32, Int64, String, Struct, decode_message, encode_message

TWO_PHASE_TIMEOUT_MS = 2147483647
KEY_VERSION = 0
VALUE_VERSION_MAX = 1
_LAST_EPOCH_ABSENT = -2
_LAST_USABLE_EPOCH = 32766
_VERSION = Layout(">h")
_HEAD = Layout(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES = Layout(">qqb")  # last update, start, the count of tags
_TAG_INT64 = Layout(">bbq")  # tag, size, value
_TAG_INT16 = Layout(">bbh")
_LAST_EPOCH = Layout(">BBbh")
_TAG_10000 = (10000 & 0x7F | 0x80, 10000 >> 7)  # as an unsigned varint
_TAG_10001 = (10001 & 0x7F | 0x80, 10001 >> 7)
SHORT_ID_LENGTH_MAX = 128
_KEY_HEAD = Layout(">hh")  # version, length
_AT_REST = Layout(">hqhibbqqb")  # head, how many partitions, times
_NO_PARTITIONS = (0, 1)  # null and empty, as a compact array
_NOTHING: frozenset[TopicPartition] = frozenset()


class _TagsAtRest(NamedTuple):
    """Which tags a value has behind its times: head (number and size) and value of each."""

    fields: Layout
    heads: tuple[bytes, ...]
    has_previous: bool
    has_client_version: bool
    has_condition: bool = False


_PREVIOUS, _CLIENT_VERSION, _LAST = b"\x00\x08", b"\x02\x02", bytes((*_TAG_10000, 2))
_CONDITION = bytes((*_TAG_10001, 1))
_NO_CONDITION_KNOWN = -1
_CONDITIONS = {0: False, 1: True}
_TAGS_AT_REST = {
    tags.fields.size: tags
    for tags in (
        _TagsAtRest(Layout(">3sh"), (_LAST,), False, False),
        _TagsAtRest(Layout(">2sh3sh"), (_CLIENT_VERSION, _LAST), False, True),
        _TagsAtRest(Layout(">2sq3sh"), (_PREVIOUS, _LAST), True, False),
        _TagsAtRest(Layout(">2sq2sh3sh"), (_PREVIOUS, _CLIENT_VERSION, _LAST), True, True),
        _TagsAtRest(Layout(">2sq2sh3sh3sb"), (_PREVIOUS, _CLIENT_VERSION, _LAST, _CONDITION), True, True, True),
    )
}


class TransactionState(IntEnum):
    """Where a transactional id stands; the values are those on disk. Dead and PrepareEpochFence never get there."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_STATES_AT_REST = {
    int(each): each
    for each in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
}


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """All that is known of one transactional id. Times in ms since 1970, -1 where there is none.

    `next_*`: the identity to go on with, where it differs from this transaction's (epoch overflow, KIP-890; a kept
    transaction, KIP-939). `previous_producer_id`: the id that asked for the end, which may ask again (KIP-890).
    `last_producer_epoch`: the epoch from which the producer itself asked for the present one (KIP-360), else -1.
    `committed_on_condition`: of a commit by EndTxn v5, whether it named what it needs (`EndTxnRequest.needed`), and so was its
    producer's own; None of any other end, and where a broker wrote the record that knows of no conditions.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0
    committed_on_condition: bool | None = None
    value_version: int = field(default=VALUE_VERSION_MAX, compare=False)


@dataclass(frozen=True, slots=True)
class TransactionTombstone:
    """The transactional id expired: a key with a null value."""

    transactional_id: str


TransactionLogRecord = TransactionRecord | TransactionTombstone


class TransactionLogKey(Struct, versions=(0, 0)):
    """Kafka's key, behind its int16 version."""

    transactional_id: String


class PartitionsSchema(Struct, versions=(0, 1), flexible=1):
    """A topic's partitions in the transaction."""

    topic: String
    partition_ids: list[Int32]


class TransactionPartitions(Struct, versions=(0, 1), flexible=1):
    """The list of them as it stands in a value, and no tags."""

    transaction_partitions: list[PartitionsSchema]


class TransactionLogValue(Struct, versions=(0, 1), flexible=1):
    """Kafka's value, behind its int16 version. `transaction_partitions` is null in state Empty."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None = None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    previous_producer_id: Int64 = schema.field(since=1, default=-1, tag=0, ignorable=True)
    next_producer_id: Int64 = schema.field(since=1, default=-1, tag=1, ignorable=True)
    client_transaction_version: Int16 = schema.field(since=1, default=0, tag=2, ignorable=True)
    next_producer_epoch: Int16 = schema.field(since=1, default=-1, tag=3, ignorable=True)
    last_producer_epoch: Int16 = schema.field(since=1, default=_LAST_EPOCH_ABSENT, tag=10000, ignorable=True)
    committed_on_condition: Int8 = schema.field(since=1, default=_NO_CONDITION_KNOWN, tag=10001, ignorable=True)


def record_to_key_value(record: TransactionLogRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the log record; the value of a tombstone is None."""
    transactional_id = record.transactional_id
    key = _short_key(transactional_id) if len(transactional_id) <= SHORT_ID_LENGTH_MAX else _key(transactional_id)
    if isinstance(record, TransactionTombstone):
        return key, None
    if record.value_version == 1:
        return key, _value_in_version_1(record)
    return key, value_by_schema(record)


def _key(transactional_id: str) -> bytes:
    return _VERSION.pack(KEY_VERSION) + encode_message(TransactionLogKey(transactional_id=transactional_id), 0)


_short_key = lru_cache(maxsize=4096)(_key)  # the same few for each of their transactions, three times


def _value_in_version_1(record: TransactionRecord) -> bytes:
    """As `value_by_schema`, for the version that is written all the time: in a quarter of its time."""
    tags = []
    if record.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_TAG_INT64.pack(0, 8, record.previous_producer_id))
    if record.next_producer_id != NO_PRODUCER_ID:
        tags.append(_TAG_INT64.pack(1, 8, record.next_producer_id))
    if record.client_transaction_version:
        tags.append(_TAG_INT16.pack(2, 2, record.client_transaction_version))
    if record.next_producer_epoch != NO_PRODUCER_EPOCH:
        tags.append(_TAG_INT16.pack(3, 2, record.next_producer_epoch))
    tags.append(_LAST_EPOCH.pack(*_TAG_10000, 2, record.last_producer_epoch))
    if record.committed_on_condition is not None:
        tags.append(_CONDITION + bytes((record.committed_on_condition,)))
    state, partitions = record.state, record.partitions
    head = _HEAD.pack(1, record.producer_id, record.producer_epoch, record.timeout_ms, state)
    named = b"\0" if state is TransactionState.EMPTY else _partitions_in_version_1(partitions)
    return b"".join((head, named, _TIMES.pack(record.last_update_ms, record.start_ms, len(tags)), *tags))


def _partitions_in_version_1(partitions: frozenset[TopicPartition]) -> bytes:
    if len(partitions) == 1:
        ((topic, number),) = partitions
        name = topic.encode()
        if len(name) < 127:
            return b"\2%c%b\2%b\0" % (len(name) + 1, name, number.to_bytes(4, "big", signed=True))
    return encode_message(TransactionPartitions(transaction_partitions=_by_topic(partitions)), 1)[:-1]


def value_by_schema(record: TransactionRecord) -> bytes:
    """The value in the record's version."""
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=None if record.state is TransactionState.EMPTY else _by_topic(record.partitions),
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        client_transaction_version=record.client_transaction_version,
        next_producer_epoch=record.next_producer_epoch,
        last_producer_epoch=record.last_producer_epoch,
        committed_on_condition=_NO_CONDITION_KNOWN
        if record.committed_on_condition is None
        else int(record.committed_on_condition),
    )
    return _VERSION.pack(record.value_version) + encode_message(value, record.value_version)


def record_from_key_value(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> TransactionLogRecord | None:
    """The record of a key and a value; None for versions that this oncelog does not know, which a loader skips.

    Raises MalformedMessage.
    """
    if key is None or len(key) < _VERSION.size:
        raise MalformedMessage("a record of __transaction_state has no key")
    if _VERSION.unpack_from(key)[0] != KEY_VERSION:
        return None
    transactional_id = _short_text(key) or decode_message(TransactionLogKey, 0, key[_VERSION.size :]).transactional_id
    if value is None:
        return TransactionTombstone(transactional_id)
    if len(value) < _VERSION.size:
        raise MalformedMessage(f"the transaction state of {transactional_id!r} is shorter than its version")
    (version,) = _VERSION.unpack_from(value)
    if not 0 <= version <= VALUE_VERSION_MAX:
        return None
    return _at_rest(transactional_id, value) or record_by_schema(transactional_id, value)


def record_by_schema(transactional_id: str, value: bytes | memoryview) -> TransactionRecord:
    """The record of a value of a known version. Raises MalformedMessage."""
    (version,) = _VERSION.unpack_from(value)
    return _from_value(transactional_id, decode_message(TransactionLogValue, version, value[_VERSION.size :]), version)


def _short_text(key: bytes | memoryview) -> str | None:
    """The id behind its version and length, None where the key is not just that."""
    if len(key) > _KEY_HEAD.size and _KEY_HEAD.unpack_from(key)[1] == len(key) - _KEY_HEAD.size:
        try:
            return str(key[_KEY_HEAD.size :], "utf-8")
        except UnicodeDecodeError:
            return None
    return None


def _at_rest(transactional_id: str, value: bytes | memoryview) -> TransactionRecord | None:
    """As `record_by_schema`, in a third of its time, of what a start finds most: no partitions, and tags as
    `_value_in_version_1` writes them for an id that no transition is under way for. None for any other."""
    layout = _TAGS_AT_REST.get(len(value) - _AT_REST.size)
    if layout is None:
        return None
    (version, producer_id, producer_epoch, timeout_ms, status, partitions, last_update_ms, start_ms, count) = (
        _AT_REST.unpack_from(value)
    )
    state = _STATES_AT_REST.get(status)
    if (
        version != 1
        or timeout_ms < 0
        or partitions not in _NO_PARTITIONS
        or state is None
        or count != len(layout.heads)
    ):
        return None
    fields = layout.fields.unpack_from(value, _AT_REST.size)
    values = fields[1::2]
    condition = _NO_CONDITION_KNOWN
    if layout.has_condition:
        values, condition = values[:-1], values[-1]
    if fields[::2] != layout.heads or values[-1] == _LAST_EPOCH_ABSENT:
        return None
    return TransactionRecord(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        _NOTHING,
        last_update_ms,
        start_ms,
        values[0] if layout.has_previous else NO_PRODUCER_ID,
        last_producer_epoch=values[-1],
        client_transaction_version=values[-2] if layout.has_client_version else 0,
        committed_on_condition=_CONDITIONS.get(condition),
    )


def newest_records(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
) -> Iterator[TransactionLogRecord]:
    """The last record of each transactional id, which says all of it: what came before is not even decoded.

    `pairs` are the keys and values of a log in its order. Values of unknown versions count as not there, as above.
    Raises MalformedMessage.
    """
    newest = {key: value for key, value in pairs if value is None or _may_be_known(value)}
    for key, value in newest.items():
        record = record_from_key_value(key, value)
        if record is not None:
            yield record


def _may_be_known(value: bytes) -> bool:
    return len(value) < _VERSION.size or 0 <= _VERSION.unpack_from(value)[0] <= VALUE_VERSION_MAX


def _from_value(transactional_id: str, value: TransactionLogValue, version: int) -> TransactionRecord:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise MalformedMessage(f"{transactional_id!r} has transaction state {value.transaction_status}") from error
    two_phase = value.transaction_timeout_ms == -1
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=TWO_PHASE_TIMEOUT_MS if two_phase else value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=_next_producer_epoch(value),
        last_producer_epoch=_last_producer_epoch(value, state),
        client_transaction_version=value.client_transaction_version,
        committed_on_condition=_CONDITIONS.get(value.committed_on_condition),
        value_version=version,
    )


def _next_producer_epoch(value: TransactionLogValue) -> int:
    # Apache Kafka writes tag 1 without tag 3: there a next id always begins with epoch 0.
    return max(value.next_producer_epoch, 0) if value.next_producer_id != NO_PRODUCER_ID else value.next_producer_epoch


def _last_producer_epoch(value: TransactionLogValue, state: TransactionState) -> int:
    """KIP-890: a loader may tell the last epoch from an end that bumped. Needed for logs that Apache Kafka wrote."""
    if value.last_producer_epoch != _LAST_EPOCH_ABSENT:
        return value.last_producer_epoch
    ended = state not in (TransactionState.EMPTY, TransactionState.ONGOING)
    if not ended or value.client_transaction_version < 2 or value.previous_producer_id == NO_PRODUCER_ID:
        return NO_PRODUCER_EPOCH
    return value.producer_epoch - 1 if value.producer_epoch > 0 else _LAST_USABLE_EPOCH


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]
