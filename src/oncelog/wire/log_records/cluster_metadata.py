"""The records of `__cluster_metadata-0`: what a node must remember that is not in a topic's own log.

A record's key is null. Its value is int16 record type, int16 version, then the record's body in flexible encoding.
An unknown type is an error: a newer oncelog wrote it, and skipping it could lose a topic. One change is one batch, so
it is there whole or not at all after a power cut.
"""

from struct import Struct as Layout

from oncelog.errors import MalformedMessage
from oncelog.wire.schema import Int8, Int16, Int32, Int64, String, Struct, Uuid, decode_message, encode_message

_PREFIX = Layout(">hh")


class TopicRecord(Struct, flexible=0):
    """A topic exists, with this many partitions; a later record of the same id raises the count."""

    name: String
    topic_id: Uuid
    partition_count: Int32


class RemoveTopicRecord(Struct, flexible=0):
    """The topic is deleted, with its configs."""

    topic_id: Uuid


class ConfigRecord(Struct, flexible=0):
    """A dynamic config of a topic (resource type 2) or a broker (4; "" is every broker); a null value removes it."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None = None


class FeatureLevelRecord(Struct, flexible=0):
    """A feature's finalized level. The features epoch grows with each change: clients ignore what is not newer."""

    name: String
    level: Int16
    features_epoch: Int64


class ProducerIdsRecord(Struct, flexible=0):
    """Ids below `next_producer_id` may have been handed out: a restart begins there."""

    next_producer_id: Int64


MetadataRecord = TopicRecord | RemoveTopicRecord | ConfigRecord | FeatureLevelRecord | ProducerIdsRecord

_TYPES: dict[int, type[MetadataRecord]] = {
    1: TopicRecord,
    2: RemoveTopicRecord,
    3: ConfigRecord,
    4: FeatureLevelRecord,
    5: ProducerIdsRecord,
}
_NUMBERS = {cls: number for number, cls in _TYPES.items()}
_VERSION = 0


def record_to_value(record: MetadataRecord) -> bytes:
    """The value of a log record that holds `record`."""
    return _PREFIX.pack(_NUMBERS[type(record)], _VERSION) + encode_message(record, _VERSION)


def record_from_value(value: bytes | memoryview) -> MetadataRecord:
    """The metadata record of a log record's value. Raises MalformedMessage."""
    if len(value) < _PREFIX.size:
        raise MalformedMessage("a cluster metadata record is shorter than its type and version")
    number, version = _PREFIX.unpack_from(value)
    if number not in _TYPES or version != _VERSION:
        raise MalformedMessage(f"cluster metadata record type {number} version {version} is not known to this oncelog")
    record: MetadataRecord = decode_message(_TYPES[number], version, value[_PREFIX.size :])
    return record
