"""What consumers tell one another through JoinGroup and SyncGroup: subscriptions and assignments, versions 0-3.

The broker carries them as opaque bytes; it looks inside only to know which topics a group reads. A newer version may
only add fields at the end, so an unknown one is read as the newest known.
"""

from dataclasses import field

from oncelog.errors import MalformedMessage
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire import schema
from oncelog.wire.schema import EMPTY, Buffer, Bytes, Int32, String, Struct, decode_message, encode_message

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 0  # all versions have the same layout; 0 is understood by every client
VERSION_MAX = 3
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants to read, and what it has (KIP-429), as of which generation (KIP-792)."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member has to read."""

    partitions: tuple[TopicPartition, ...] = field(default=())
    user_data: bytes | None = None


class TopicPartitions(Struct):
    topic: String
    partitions: list[Int32] = EMPTY


class ConsumerProtocolSubscription(Struct, versions=(0, 3)):
    topics: list[String] = EMPTY
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartitions] = schema.field(since=1, default=EMPTY, ignorable=True)
    generation_id: Int32 = schema.field(since=2, default=NO_GENERATION, ignorable=True)
    rack_id: String | None = schema.field(since=3, default=None, ignorable=True)


class ConsumerProtocolAssignment(Struct, versions=(0, 3)):
    assigned_partitions: list[TopicPartitions] = EMPTY
    user_data: Bytes | None = None


class StickyUserData(Struct):
    previous_assignment: list[TopicPartitions] = EMPTY
    generation_id: Int32 = NO_GENERATION


def sticky_user_data(partitions: tuple[TopicPartition, ...], generation_id: int) -> bytes:
    """What a member of the eager sticky assignor tells of itself: it has given everything back, but remembers."""
    return encode_message(StickyUserData(previous_assignment=_by_topic(partitions), generation_id=generation_id), 0)


def sticky_memory(user_data: Buffer | None) -> tuple[tuple[TopicPartition, ...], int]:
    """What such a member had, and in which generation; nothing where that cannot be read (another assignor's data)."""
    if not user_data:
        return (), NO_GENERATION
    try:
        message = decode_message(StickyUserData, 0, memoryview(user_data), trailing="ignore")
    except MalformedMessage:
        return (), NO_GENERATION
    return _flat(message.previous_assignment), message.generation_id


def subscription_to_bytes(subscription: Subscription, *, version: int = SUBSCRIPTION_VERSION) -> bytes:
    """The metadata of a JoinGroup protocol."""
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return version.to_bytes(2, "big") + encode_message(message, version)


def subscription_from_bytes(data: Buffer) -> Subscription:
    """Reads a member's metadata. Raises MalformedMessage."""
    version, rest = _split(data)
    message = decode_message(ConsumerProtocolSubscription, version, rest, trailing="ignore")
    return Subscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned_partitions=_flat(message.owned_partitions),
        generation_id=message.generation_id,
        rack_id=message.rack_id,
    )


def assignment_to_bytes(assignment: Assignment, *, version: int = ASSIGNMENT_VERSION) -> bytes:
    """The assignment of a SyncGroup member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
    )
    return version.to_bytes(2, "big") + encode_message(message, version)


def assignment_from_bytes(data: Buffer) -> Assignment:
    """Reads an assignment; empty bytes (a member that was not given any) are an empty one. Raises MalformedMessage."""
    if not len(data):
        return Assignment()
    version, rest = _split(data)
    message = decode_message(ConsumerProtocolAssignment, version, rest, trailing="ignore")
    user_data = None if message.user_data is None else bytes(message.user_data)
    return Assignment(partitions=_flat(message.assigned_partitions), user_data=user_data)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < 2:
        raise MalformedMessage(f"a consumer's metadata of {len(view)} bytes has no version")
    version = int.from_bytes(view[:2], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"a consumer's metadata has version {version}")
    return min(version, VERSION_MAX), view[2:]


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()]


def _flat(topics: list[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in topics for partition in each.partitions)
