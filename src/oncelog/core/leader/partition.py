"""The leader's rules for one partition: what may be appended, how far readers may see.

`check_*` decide and change nothing but the verifications under way; `appended`, `synced`, `delete_records_to` change
state, and `replay` is the same code in recovery. Rule: log start <= last stable offset <= high watermark <= log end,
and the high watermark moves only by `synced` (on one node what is synced is replicated).

Differences from Apache Kafka are said where they are decided; docs/differences-from-kafka.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from oncelog.core.leader import produce as produce_rules
from oncelog.core.leader.guards import Guard, Verifications
from oncelog.core.leader.markers import EPOCH_BUMPED_FROM_VERSION, check_marker
from oncelog.core.leader.open_transactions import OpenTransactions
from oncelog.core.leader.producer_state import ProducerState, check_sequence
from oncelog.core.leader.verdict import APPEND, Append, AskCoordinator, Duplicate, Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass, replace
from oncelog.types import AbortedTransaction, ProducerIdAndEpoch, ProducerSnapshotEntry
from oncelog.wire.record_batch import RecordBatch

__all__ = [
    "ActiveProducer",
    "Append",
    "AskCoordinator",
    "Duplicate",
    "Guard",
    "IsolationLevel",
    "OpenTransaction",
    "Partition",
    "PartitionConfig",
    "Readable",
    "Refuse",
]

LATE_TRANSACTION_PADDING_MS = 300_000  # KIP-664: five minutes beyond the largest timeout before anyone is alarmed


class IsolationLevel(IntEnum):
    """What a reader wants to see; the numbers of the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """Kafka's keys that a partition's rules depend on; replace the object when one changes."""

    verification_enabled: bool = True  # transaction.partition.verification.enable: old clients only
    producer_id_expiration_ms: int = 86_400_000  # producer.id.expiration.ms
    transaction_timeout_ms_max: int = 900_000  # transaction.max.timeout.ms
    producer_count_max: int = 100_000  # oncelog.max.producer.ids.per.partition


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """One row of DescribeProducers: every producer that the partition remembers; -1 where there is nothing to tell."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that no marker has ended here; `opened_ms` is the records' time if it is older than a restart."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    opened_ms: int
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class Readable:
    """A fetch may read offsets below `end_offset`, and answers with the rest."""

    end_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class Partition:
    """Producers, open transactions and offsets of one partition."""

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        assert 0 <= log_start_offset <= log_end_offset
        self.config = config or PartitionConfig()
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_end_offset
        self.leader_epoch = leader_epoch
        self._producers: dict[int, ProducerState] = {}
        self._open = OpenTransactions()
        self._verifications = Verifications()

    # Appending

    def check_produce(
        self,
        batch: RecordBatch,
        *,
        transactional_id: str | None,
        supports_implicit_add: bool,
        now_ms: int,
        guard: Guard | None = None,
    ) -> Append | Duplicate | AskCoordinator | Refuse:
        """May a client's batch be appended now? `supports_implicit_add`: Produce v12 or later.

        After AskCoordinator, and once the coordinator agreed, ask again with its guard. The order of the checks is that
        of Kafka's `UnifiedLog.analyzeAndValidateProducerState`.
        """
        refusal = produce_rules.check_identity(batch, transactional_id)
        if refusal is not None:
            return refusal
        if batch.producer_id < 0:
            return APPEND
        state = self._producers.get(batch.producer_id)
        if state is not None:
            found = produce_rules.check_duplicate(state, batch, supports_implicit_add=supports_implicit_add)
            if found is not None:
                return found
            refusal = produce_rules.check_epoch(state, batch.producer_epoch)
            if refusal is not None:
                is_verified = supports_implicit_add or self.config.verification_enabled
                return replace(refusal, is_before_log=batch.is_transactional and is_verified)
        if batch.is_transactional:
            assert transactional_id is not None
            verdict = self._check_transaction(
                ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch),
                transactional_id,
                guard=guard,
                base_sequence=batch.base_sequence,
                supports_implicit_add=supports_implicit_add,
                now_ms=now_ms,
            )
            if verdict is not None:
                return verdict
        if state is None and len(self._producers) >= self.config.producer_count_max:
            return Refuse(
                ErrorCode.POLICY_VIOLATION,
                f"the partition remembers {len(self._producers)} producer ids (oncelog.max.producer.ids.per.partition)",
            )
        entry = None if guard is None else self._verifications.entry(guard)
        refusal = check_sequence(
            state,
            batch,
            supports_implicit_add=supports_implicit_add,
            lowest_sequence=None if entry is None else entry.lowest_sequence,
        )
        if refusal is not None:
            return refusal
        if state is not None and state.has_open_transaction and not batch.is_transactional:
            return Refuse(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has an open transaction here and sent a batch outside of it",
            )
        return APPEND

    def check_offset_commit(
        self,
        producer: ProducerIdAndEpoch,
        *,
        transactional_id: str,
        supports_implicit_add: bool,
        now_ms: int,
        guard: Guard | None = None,
    ) -> Append | AskCoordinator | Refuse:
        """May the group coordinator append a transaction's offsets? As `check_produce`, without the sequence.

        `supports_implicit_add`: TxnOffsetCommit v5 or later.
        """
        state = self._producers.get(producer.producer_id)
        if state is not None:
            refusal = produce_rules.check_epoch(state, producer.producer_epoch)
            if refusal is not None:
                return refusal
        verdict = self._check_transaction(
            producer,
            transactional_id,
            guard=guard,
            base_sequence=0,
            supports_implicit_add=supports_implicit_add,
            now_ms=now_ms,
        )
        if isinstance(verdict, Refuse) and verdict.error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            return replace(
                verdict, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )  # as TxnOffsetCommit says "retry"
        return APPEND if verdict is None else verdict

    def has_needed(self, producer: ProducerIdAndEpoch, last_sequence: int) -> bool:
        """Whether the last batch of the producer's open transaction here is the one that ends with `last_sequence`."""
        state = self._producers.get(producer.producer_id)
        return (
            state is not None
            and state.has_open_transaction
            and state.producer_epoch == producer.producer_epoch
            and state.last_sequence == last_sequence >= 0
        )

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        start_offset: int | None = None,
        *,
        commit: bool,
    ) -> Append | Refuse:
        """May an end-of-transaction marker be appended?

        `transaction_version` is the marker's (0 from WriteTxnMarkers v0/v1). `start_offset` comes with an operator's
        abort (KIP-664, our tagged field): then the coordinator epoch is -1 and a transaction must start there.
        """
        return check_marker(
            self._producers.get(producer_id),
            producer_id,
            producer_epoch,
            coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
            start_offset=start_offset,
        )

    def appended(
        self, batch: RecordBatch, *, now_ms: int, guard: Guard | None = None, transaction_version: int = 2
    ) -> AbortedTransaction | None:
        """The batch was appended at the log end, in the step that checked it; the transaction index entry, if any.

        `guard` is the one of the check; `transaction_version` is the one of a marker's check.
        """
        assert batch.base_offset == self.log_end_offset, "offsets are given at the log end"
        return self._take(batch, now_ms, guard, transaction_version)

    def synced(self, end_offset: int) -> bool:
        """Everything below `end_offset` is on disk: moves the high watermark, then the last stable offset; did it?"""
        assert end_offset <= self.log_end_offset
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        self._open.synced(end_offset)
        return True

    def delete_records_to(self, log_start_offset: int) -> None:
        """Retention or DeleteRecords moved the log start. Producer state stays (KIP-360, KAFKA-7190)."""
        assert log_start_offset <= self.high_watermark
        self.log_start_offset = max(self.log_start_offset, log_start_offset)

    # Recovery

    def load_snapshot(self, entries: Iterable[ProducerSnapshotEntry]) -> None:
        """Start over from a producer snapshot; the batches behind it follow through `replay`."""
        self._producers = {entry.producer_id: ProducerState.from_snapshot(entry) for entry in entries}
        self._open = OpenTransactions(
            state.current_txn_first_offset for state in self._producers.values() if state.has_open_transaction
        )
        self._verifications = Verifications()
        self.log_end_offset = 0

    def replay(self, batch: RecordBatch) -> AbortedTransaction | None:
        """A batch read in recovery: what `appended` does, without anything to check."""
        assert batch.base_offset >= self.log_end_offset, "batches come in order (compaction leaves gaps)"
        return self._take(batch, None, None, transaction_version=2)

    def recovered(self, *, log_start_offset: int, log_end_offset: int) -> None:
        """Recovery is over and the log is synced: everything up to its end may be read, if it is decided."""
        assert 0 <= log_start_offset <= log_end_offset
        assert log_end_offset >= self.log_end_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.high_watermark = log_end_offset
        self._open.synced(log_end_offset)

    def snapshot_entries(self) -> list[ProducerSnapshotEntry]:
        """What a producer snapshot at the log end holds."""
        return [state.to_snapshot() for state in self._producers.values()]

    def producer_windows(self) -> list[ProducerSnapshotEntry]:
        """The producers whose duplicate window is more than the one batch of `snapshot_entries`."""
        states = [state for state in self._producers.values() if len(state.batches) > 1]
        return [replace(state.to_snapshot(), earlier=state.earlier_batches()) for state in states]

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """The first offset that is not decided yet, at most the high watermark, never below the log start."""
        first_unstable = self._open.first_unstable_offset()
        if first_unstable is None:
            return self.high_watermark
        # Deleted records may include an open transaction's first ones (Kafka then names an offset below the log start).
        return min(max(first_unstable, self.log_start_offset), self.high_watermark)

    def readable_to(self, isolation_level: IsolationLevel) -> int:
        """Readers may see offsets below this one."""
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def check_leader_epoch(self, current_leader_epoch: int) -> Refuse | None:
        """KIP-320: a client that knows an older or newer leader epoch than ours (-1: it does not say)."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return None
        if current_leader_epoch < self.leader_epoch:
            return Refuse(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
        return Refuse(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    def check_fetch(
        self, fetch_offset: int, isolation_level: IsolationLevel, *, current_leader_epoch: int = -1
    ) -> Readable | Refuse:
        """How far a fetch may read. At or past the bound, but not past the log end, there is nothing yet: no error."""
        refusal = self.check_leader_epoch(current_leader_epoch)
        if refusal is not None:
            return refusal
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            return Refuse(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch_offset} is outside {self.log_start_offset}..{self.log_end_offset}",
            )
        return Readable(
            self.readable_to(isolation_level), self.high_watermark, self.last_stable_offset, self.log_start_offset
        )

    # Looking in, cleaning up

    @property
    def producer_count(self) -> int:
        """How many producers are remembered."""
        return len(self._producers)

    @property
    def open_transaction_count(self) -> int:
        """How many transactions no marker has ended."""
        return len(self._open)

    @property
    def highest_producer_id(self) -> int:
        """Of those that it remembers; -1 where there is none."""
        return max(self._producers, default=-1)

    def describe_producers(self) -> list[ActiveProducer]:
        """Every producer that is remembered, also those without an open transaction (KIP-664)."""
        return [
            ActiveProducer(
                state.producer_id,
                state.producer_epoch,
                state.last_sequence,
                state.last_timestamp,
                state.coordinator_epoch,
                state.current_txn_first_offset,
            )
            for state in self._producers.values()
        ]

    def open_transactions(self) -> list[OpenTransaction]:
        """Transactions that no marker has ended, oldest first."""
        found = [
            OpenTransaction(
                state.producer_id,
                state.producer_epoch,
                state.current_txn_first_offset,
                state.opened_ms,
                None if state.opened_by is None else state.opened_by.transactional_id,
            )
            for state in self._producers.values()
            if state.has_open_transaction
        ]
        return sorted(found, key=lambda transaction: transaction.first_offset)

    def late_transactions(self, now_ms: int) -> list[OpenTransaction]:
        """Those open longer than any timeout allows, five minutes added (PartitionsWithLateTransactionsCount)."""
        opened_before_ms = now_ms - self.config.transaction_timeout_ms_max - LATE_TRANSACTION_PADDING_MS
        return [transaction for transaction in self.open_transactions() if transaction.opened_ms < opened_before_ms]

    def expire(self, now_ms: int) -> int:
        """Forget producers and verifications that were silent too long; how many producers. Open transactions stay."""
        silent_since_ms = now_ms - self.config.producer_id_expiration_ms
        expired = [
            producer_id
            for producer_id, state in self._producers.items()
            if not state.has_open_transaction and state.active_ms <= silent_since_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._verifications.expire(now_ms)
        return len(expired)

    # Inside

    def _check_transaction(
        self,
        producer: ProducerIdAndEpoch,
        transactional_id: str,
        *,
        guard: Guard | None,
        base_sequence: int,
        supports_implicit_add: bool,
        now_ms: int,
    ) -> AskCoordinator | Refuse | None:
        return produce_rules.check_transaction(
            self._producers.get(producer.producer_id),
            self._verifications,
            producer,
            transactional_id,
            guard=guard,
            base_sequence=base_sequence,
            supports_implicit_add=supports_implicit_add,
            verification_enabled=self.config.verification_enabled,
            now_ms=now_ms,
        )

    def _take(
        self, batch: RecordBatch, now_ms: int | None, guard: Guard | None, transaction_version: int
    ) -> AbortedTransaction | None:
        self.log_end_offset = batch.end_offset
        if batch.producer_id < 0:
            return None
        if batch.is_control:
            return self._take_marker(batch, now_ms, transaction_version)
        state = self._state_for(batch)
        if state.take_data(batch, now_ms, guard):
            self._open.opened(batch.base_offset)
        self._verifications.appended(batch.producer_id, batch.producer_epoch)
        return None

    def _take_marker(
        self, batch: RecordBatch, now_ms: int | None, transaction_version: int
    ) -> AbortedTransaction | None:
        marker = batch.end_txn_marker()
        state = self._state_for(batch)
        if marker is None:  # emptied by the cleaner: it is kept for its epoch
            state.take_emptied_marker(batch)
            return None
        completed = state.take_marker(
            batch, committed=marker.commit, coordinator_epoch=marker.coordinator_epoch, now_ms=now_ms
        )
        self._verifications.marker_appended(
            batch.producer_id,
            batch.producer_epoch,
            ends_previous=transaction_version >= EPOCH_BUMPED_FROM_VERSION,
        )
        if completed is None:
            return None
        last_stable_offset = self._open.completed(completed.first_offset, completed.marker_offset)
        if marker.commit:
            return None
        return AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.marker_offset, last_stable_offset
        )

    def _state_for(self, batch: RecordBatch) -> ProducerState:
        state = self._producers.get(batch.producer_id)
        if state is None:
            state = self._producers[batch.producer_id] = ProducerState(batch.producer_id, batch.producer_epoch)
        return state
