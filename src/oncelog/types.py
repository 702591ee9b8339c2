"""Small frozen values that every room knows."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from oncelog.lazy_dataclass import dataclass

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity on the wire; (-1, -1) is none."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Node(NamedTuple):
    """A broker and where it listens."""

    node_id: int
    host: str
    port: int


class CoordinatorKey(NamedTuple):
    """What a coordinator is asked for: key_type 0 is a group, 1 a transactional id."""

    key_type: int
    key: str


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer's place in its group, which fences commits of members that lost their partitions (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A consumer group's position: `offset` is the next record to read; `leader_epoch` is -1 where unknown.

    `topic_id`: of the topic that it is a place in, where the consumer knows it; it says no more of another one that is made
    under the same name (KIP-848). Two positions are equal whatever it is.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    topic_id: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One entry of a transaction index: an aborted transaction of a partition.

    `last_offset` is the offset of its ABORT marker (inclusive). `last_stable_offset` is the first offset of the next
    transaction that was still open then, or the offset after the marker (Kafka's `AbortedTxn`).
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class WindowBatch(NamedTuple):
    """One batch of a producer's duplicate window (`offset_delta`: last offset minus base offset)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerSnapshotEntry:
    """What a `.snapshot` file keeps of one producer: its last batch and its open transaction (-1: none).

    `earlier` is not in that file: the batches before the last one, oldest first, where something else kept them.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int
    earlier: tuple[WindowBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedTxnState:
    """A prepared transaction's identity (KIP-939), to be stored by the database that decides about it.

    `PreparedTxnState("12:3")` reads what `str()` wrote; `PreparedTxnState("")` is none; else ValueError.
    """

    producer_id: int
    producer_epoch: int

    def __init__(self, text: str | None = "") -> None:
        producer_id, producer_epoch = _parse_prepared(text or "")
        object.__setattr__(self, "producer_id", producer_id)
        object.__setattr__(self, "producer_epoch", producer_epoch)

    @classmethod
    def of(cls, producer_id: int, producer_epoch: int) -> PreparedTxnState:
        """The state of a producer id (0 or more) and producer epoch (0..32767)."""
        return cls(f"{producer_id}:{producer_epoch}")

    @property
    def is_none(self) -> bool:
        """True where nothing was prepared."""
        return self.producer_id == NO_PRODUCER_ID

    def __bool__(self) -> bool:
        return not self.is_none

    def __str__(self) -> str:
        return "" if self.is_none else f"{self.producer_id}:{self.producer_epoch}"


def _parse_prepared(text: str) -> tuple[int, int]:
    if not text:
        return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    left, colon, right = text.partition(":")
    if not (colon and left.isascii() and left.isdigit() and right.isascii() and right.isdigit() and len(text) < 30):
        raise ValueError(f"not a prepared transaction state: {text!r} (expected 'producerId:epoch', e.g. '4000:7')")
    producer_id, producer_epoch = int(left), int(right)
    if producer_id > 2**63 - 1 or producer_epoch > 2**15 - 1:
        raise ValueError(f"not a prepared transaction state: {text!r} (producer id or epoch out of range)")
    return producer_id, producer_epoch
