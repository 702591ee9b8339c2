"""What a partition knows of each producer: its epoch, its last five batches, its open transaction.

This is where duplicates, gaps and fenced producers are recognised (KIP-98, KIP-360). State is kept per producer id and
outlives deleted records (KAFKA-7190); it goes only when the producer was silent for `producer.id.expiration.ms`.

Unlike Apache Kafka, silence is measured from the append while the partition lives, not from the records' own
timestamps: a producer that loads old data keeps its duplicate window. After recovery only the timestamps are known.
"""

from __future__ import annotations

from oncelog.core.leader.guards import Guard
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_OFFSET, NO_SEQUENCE, ProducerSnapshotEntry, WindowBatch
from oncelog.wire.record_batch import RecordBatch, next_sequence

WINDOW_BATCH_COUNT = 5  # max.in.flight.requests.per.connection of an idempotent producer
SEQUENCE_COUNT = 2**31
NO_COORDINATOR_EPOCH = -1


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One batch of the duplicate window (`offset_delta`: last offset minus base offset)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequences wrap: the successor of 2147483647 is 0."""
        return (self.last_sequence - self.offset_delta) % SEQUENCE_COUNT

    @property
    def base_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A marker ended the transaction that began at `first_offset`."""

    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool


@dataclass(slots=True)
class ProducerState:
    """One producer id on one partition.

    `current_txn_first_offset` is -1 where no transaction is open; an open one belongs to `producer_epoch`.
    `active_ms` is when it last wrote (the batch's timestamp for what was read in recovery). The last four fields are
    soft: known only while the partition lives (`opened_by`, `opened_ms`) or where the marker itself was read.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = -1
    current_txn_first_offset: int = NO_OFFSET
    active_ms: int = -1
    batches: tuple[AppendedBatch, ...] = ()  # a tuple: a day's producers stay in memory, a deque is ten times as large
    opened_by: Guard | None = None
    opened_ms: int = -1
    last_marker_committed: bool | None = None
    aborted_by_operator: bool = False

    @property
    def last_sequence(self) -> int:
        """Of the last batch at this epoch; -1 where there was none (as after a marker with a new epoch)."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def has_open_transaction(self) -> bool:
        """A transactional batch was appended that no marker has followed."""
        return self.current_txn_first_offset != NO_OFFSET

    def duplicate_of(self, batch: RecordBatch) -> AppendedBatch | None:
        """The stored batch that this one repeats: same epoch, first and last sequence. Payloads are not compared."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        return next(
            (stored for stored in self.batches if stored.last_sequence == last and stored.first_sequence == first), None
        )

    def is_of_ended_transaction(self, stored: AppendedBatch) -> bool:
        """Whether a transactional batch of the window lies before the open transaction, if any."""
        return not self.has_open_transaction or stored.base_offset < self.current_txn_first_offset

    def take_data(self, batch: RecordBatch, now_ms: int | None, guard: Guard | None) -> bool:
        """A data batch was appended (or read in recovery); whether it opened a transaction."""
        self._raise_epoch(batch.producer_epoch)
        self.last_timestamp = batch.max_timestamp
        self.active_ms = batch.max_timestamp if now_ms is None else now_ms
        if batch.base_sequence >= 0 and batch.producer_epoch == self.producer_epoch:
            newest = AppendedBatch(
                batch.last_sequence, batch.last_offset, batch.last_offset - batch.base_offset, batch.max_timestamp
            )
            self.batches = (*self.batches[1 - WINDOW_BATCH_COUNT :], newest)
        # The cleaner keeps a producer's last batch, emptied, for its sequence; its transaction is long decided.
        if not batch.is_transactional or self.has_open_transaction or batch.record_count == 0:
            return False
        self.current_txn_first_offset = batch.base_offset
        self.opened_by = guard
        self.opened_ms = self.active_ms
        return True

    def take_marker(
        self, batch: RecordBatch, *, committed: bool, coordinator_epoch: int, now_ms: int | None
    ) -> CompletedTransaction | None:
        """An end-of-transaction marker was appended (or read in recovery); the transaction it ended, if any."""
        is_same_epoch = batch.producer_epoch == self.producer_epoch
        self._raise_epoch(batch.producer_epoch)
        # KIP-664: an operator's marker carries -1, which is never stored, so it fences no coordinator.
        self.coordinator_epoch = max(self.coordinator_epoch, coordinator_epoch)
        self.last_timestamp = batch.max_timestamp  # KAFKA-9144: a marker is a sign of life as well
        self.active_ms = batch.max_timestamp if now_ms is None else now_ms
        self.last_marker_committed = committed
        first_offset, self.current_txn_first_offset = self.current_txn_first_offset, NO_OFFSET
        self.opened_by, self.opened_ms = None, -1
        self.aborted_by_operator = (
            coordinator_epoch == NO_COORDINATOR_EPOCH and is_same_epoch and not committed and first_offset != NO_OFFSET
        )
        if first_offset == NO_OFFSET:
            return None
        return CompletedTransaction(self.producer_id, first_offset, batch.last_offset, committed)

    def take_emptied_marker(self, batch: RecordBatch) -> None:
        """A marker of which the cleaner left only the header, so that the producer's last epoch is not forgotten."""
        self._raise_epoch(batch.producer_epoch)
        self.last_timestamp = self.active_ms = batch.max_timestamp

    def _raise_epoch(self, producer_epoch: int) -> None:
        if producer_epoch > self.producer_epoch:  # never lowered, not even by a foreign log in recovery
            self.producer_epoch = producer_epoch
            self.batches = ()
            self.last_marker_committed = None
            self.aborted_by_operator = False

    @classmethod
    def from_snapshot(cls, entry: ProducerSnapshotEntry) -> ProducerState:
        """As a `.snapshot` file keeps it: the duplicate window is one batch, and what something else kept before it."""
        state = cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset,
            entry.timestamp,
        )
        if entry.last_sequence >= 0:
            last = AppendedBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            state.batches = (*(AppendedBatch(*each) for each in entry.earlier), last)
        if state.has_open_transaction:
            state.opened_ms = entry.timestamp
        return state

    def earlier_batches(self) -> tuple[WindowBatch, ...]:
        """The duplicate window without its last batch, which `to_snapshot` has."""
        return tuple(
            WindowBatch(each.last_sequence, each.last_offset, each.offset_delta, each.timestamp)
            for each in self.batches[:-1]
        )

    def to_snapshot(self) -> ProducerSnapshotEntry:
        """What a `.snapshot` file keeps of it."""
        last = self.batches[-1] if self.batches else AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
        return ProducerSnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )


def check_sequence(
    state: ProducerState | None, batch: RecordBatch, *, supports_implicit_add: bool, lowest_sequence: int | None
) -> Refuse | None:
    """Whether a batch that is no duplicate and not fenced continues its producer's sequence.

    `lowest_sequence` is the smallest that asked for the verification which this batch waited for (None: none was).
    """
    first = batch.base_sequence
    if state is None:
        # An idempotent producer's state may have expired, so any sequence may begin. A transaction of the new protocol
        # begins at 0 (KIP-890, "Return Error for Non-Zero Sequence on New Producers"); retriable: 0 is on its way.
        if supports_implicit_add and batch.is_transactional and first != 0:
            return _out_of_order(batch, "0, the first of a transaction")
        if lowest_sequence is not None and first > lowest_sequence:
            return _out_of_order(batch, f"{lowest_sequence}, which waits as well")
        return None
    if batch.producer_epoch != state.producer_epoch:
        return None if first == 0 else _out_of_order(batch, "0, the first of a new producer epoch")
    expected = next_sequence(state.last_sequence, 1) if state.batches else 0
    return None if first == expected else _out_of_order(batch, str(expected))


def _out_of_order(batch: RecordBatch, expected: str) -> Refuse:
    return Refuse(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {batch.producer_id} at epoch {batch.producer_epoch} sent sequence {batch.base_sequence}, "
        f"expected {expected}",
    )
