"""The records of `__cluster_metadata-0`: what a node must remember that is not in a topic's own log.

A record's key is null. Its value is int16 record type, int16 version, then the record's body in flexible encoding.
An unknown type is an error: a newer oncelog wrote it, and skipping it could lose a topic. One change is one batch, so
it is there whole or not at all after a power cut.
"""

from struct import Struct as Layout

from oncelog.errors import MalformedMessage
from oncelog.wire.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    decode_message,
    encode_message,
)

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
    """A dynamic config of a topic (2), broker (4; "" is every one), client metrics (16) or group (32); null removes it."""

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


class AclRecord(Struct, flexible=0):
    """One access rule, under an id of its own; the numbers are Kafka's (`core/metadata/acl.py`)."""

    acl_id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAclRecord(Struct, flexible=0):
    """The rule of this id is gone."""

    acl_id: Uuid


class QuotaEntity(Struct):
    """One part of whom a quota is for: type "user", "client-id" or "ip"; no name is that type's default."""

    entity_type: String
    entity_name: String | None = None


class ClientQuotaRecord(Struct, flexible=0):
    """One quota of an entity, set or removed."""

    entity: list[QuotaEntity]
    key: String
    value: Float64 = 0.0
    is_removed: Bool = False


class ScramCredentialRecord(Struct, flexible=0):
    """What proves a user's password (RFC 5802) without being it; mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    user: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


class RemoveScramCredentialRecord(Struct, flexible=0):
    """The user has no credential of this mechanism any more."""

    user: String
    mechanism: Int8


class DelegationTokenRecord(Struct, flexible=0):
    """A delegation token, new or renewed; principals as "User:alice". Its MAC is not kept: the secret key gives it again."""

    token_id: String
    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64


class RemoveDelegationTokenRecord(Struct, flexible=0):
    """The token is gone."""

    token_id: String


MetadataRecord = (
    TopicRecord
    | RemoveTopicRecord
    | ConfigRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | AclRecord
    | RemoveAclRecord
    | ClientQuotaRecord
    | ScramCredentialRecord
    | RemoveScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
)

_TYPES: dict[int, type[MetadataRecord]] = {
    1: TopicRecord,
    2: RemoveTopicRecord,
    3: ConfigRecord,
    4: FeatureLevelRecord,
    5: ProducerIdsRecord,
    6: AclRecord,
    7: RemoveAclRecord,
    8: ClientQuotaRecord,
    9: ScramCredentialRecord,
    10: RemoveScramCredentialRecord,
    11: DelegationTokenRecord,
    12: RemoveDelegationTokenRecord,
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
