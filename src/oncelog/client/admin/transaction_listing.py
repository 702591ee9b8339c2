"""What the admin tells about transactions and producers. Values only."""

from __future__ import annotations

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
NEVER_MS = 2**31 - 1  # the stored timeout of two-phase commit (KIP-939)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list. States are Kafka's names: Empty, Ongoing, PrepareCommit, CompleteAbort ..."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id at its coordinator. `start_ms` is -1 before the first transaction; `now_ms` is when we asked."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]
    now_ms: int

    @property
    def is_open(self) -> bool:
        """Whether records wait for a decision or its markers."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")

    @property
    def duration_ms(self) -> int | None:
        """How long an open transaction has been open by our clock; None where none is open."""
        return max(self.now_ms - self.start_ms, 0) if self.is_open and self.start_ms >= 0 else None

    @property
    def remaining_ms(self) -> int | None:
        """How long until the coordinator aborts an ongoing transaction; None where it does not or none is ongoing."""
        if self.state != "Ongoing" or self.timeout_ms == NEVER_MS:
            return None
        return self.timeout_ms - (self.now_ms - self.start_ms)


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """What a partition remembers of a producer. `transaction_start_offset` None: no open transaction here."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction on a partition that no coordinator will end. `reason` says how that was found out."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    duration_ms: int
    transactional_id: str | None
    reason: str
