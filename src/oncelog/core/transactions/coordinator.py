"""The transaction coordinator of one `__transaction_state` partition: requests in, decisions out.

The rules are in the files beside this one, each with its own reason: init_producer_id, add_partitions, end_txn,
completion, timeouts, queries. What is known is in table; one transaction's steps are in transaction. See `core/decision`
for what a shell does with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions import add_partitions, completion, end_txn, init_producer_id, queries, timeouts
from oncelog.core.transactions.completion import MarkerResult
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.table import TransactionConfig, TransactionTable
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionLogRecord, TransactionRecord
from oncelog.wire.messages import describe_transactions, list_transactions
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

__all__ = ["MarkerResult", "TransactionConfig", "TransactionCoordinator"]


class TransactionCoordinator:
    """One partition's coordinator. `features` gives the finalized `transaction.version` (0..3) of this moment.

    Requests must be for ids of this partition (`core/placement.py`) and come after loading: until the whole log has
    gone through `apply` the shell answers COORDINATOR_LOAD_IN_PROGRESS.
    """

    is_ahead = False  # it shows what was applied

    def __init__(
        self,
        partition_index: int,
        coordinator_epoch: int,
        config: TransactionConfig,
        producer_ids: ProducerIds,
        features: Callable[[], int],
    ) -> None:
        self.partition_index = partition_index
        self.table = TransactionTable(coordinator_epoch, config, producer_ids, features)

    # Requests: they look and change nothing.

    def init_producer_id(self, request: InitProducerIdRequest, version: int, now_ms: int) -> Decision:
        """InitProducerId with a transactional id; without one see `init_producer_id.new_producer_id`."""
        return init_producer_id.init_producer_id(self.table, request, version, now_ms)

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest, version: int, now_ms: int) -> Decision:
        """AddPartitionsToTxn v0-3; reply AddPartitionsToTxnResponse."""
        return add_partitions.add_partitions_to_txn(self.table, request, version, now_ms)

    def add_partitions(self, entry: AddPartitionsToTxnTransaction, version: int, now_ms: int) -> Decision:
        """One transaction of AddPartitionsToTxn v4+, to add or to verify; reply AddPartitionsToTxnResult."""
        return add_partitions.add_partitions(self.table, entry, version, now_ms)

    def is_verified(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> bool:
        """Whether AddPartitionsToTxn with `verify_only` would agree to all of these."""
        return add_partitions.is_verified(self.table, transactional_id, identity, partitions)

    def add_offsets_to_txn(
        self, request: AddOffsetsToTxnRequest, version: int, now_ms: int, offsets_partition: TopicPartition
    ) -> Decision:
        """AddOffsetsToTxn; `offsets_partition` is the group's partition of `__consumer_offsets`."""
        return add_partitions.add_offsets_to_txn(self.table, request, version, now_ms, offsets_partition)

    def end_txn(
        self, request: EndTxnRequest, version: int, now_ms: int, has_needed: end_txn.HasNeeded | None = None
    ) -> Decision:
        """EndTxn. `has_needed`: whether the records are there that a conditional commit needs."""
        return end_txn.end_txn(self.table, request, version, now_ms, has_needed)

    def describe_transaction(self, transactional_id: str) -> describe_transactions.TransactionState:
        """One entry of DescribeTransactions."""
        return queries.describe_transaction(self.table, transactional_id)

    def list_transactions(
        self, request: list_transactions.ListTransactionsRequest, now_ms: int
    ) -> list_transactions.ListTransactionsResponse:
        """This partition's share of ListTransactions."""
        return queries.list_transactions_of(self.table, request, now_ms)

    # Time.

    def timed_out(self, now_ms: int) -> Iterator[Decision]:
        """Aborts of transactions past their timeout. Perform each before asking for the next."""
        return timeouts.timed_out(self.table, now_ms)

    def expired(self, now_ms: int) -> Iterator[Decision]:
        """Tombstones of transactional ids that nobody used for `transactional.id.expiration.ms`."""
        return timeouts.expired(self.table, now_ms)

    def longest_open_ms(self, now_ms: int) -> int:
        """The age of the oldest open transaction, 0 when none is open (ActiveTransactionOpenTimeMaxMs)."""
        return timeouts.longest_open_ms(self.table, now_ms)

    # Markers.

    def markers_written(
        self, markers: MarkersToWrite, results: Mapping[TopicPartition, MarkerResult], now_ms: int
    ) -> Decision:
        """Leaders' answers for markers of a decision: the Complete record, or what to send again."""
        return completion.markers_written(self.table, markers, results, now_ms)

    def pending_completions(self, now_ms: int) -> tuple[Decision, ...]:
        """After loading: what decided transactions still need."""
        return completion.pending_completions(self.table, now_ms)

    # The log.

    def appended(self, records: Iterable[TransactionLogRecord]) -> None:
        """The records of a decision are appended, not committed yet."""
        self.table.appended(records)

    def failed(self, records: Iterable[TransactionLogRecord]) -> None:
        """Their append or sync failed."""
        self.table.failed(records)

    def apply(self, record: TransactionLogRecord) -> None:
        """A record is committed, or read at the start. Live, pass the very object of the decision."""
        self.table.apply(record)

    # Questions of the shell.

    def __len__(self) -> int:
        return len(self.table.transactions)

    def get(self, transactional_id: str) -> TransactionRecord | None:
        """The committed state of an id."""
        return self.table.get(transactional_id)

    def is_busy(self, transactional_id: str) -> bool:
        """Whether requests held for this id must go on waiting."""
        return self.table.is_busy(transactional_id)

    def two_phase_transactions(self) -> list[str]:
        """Ids that a downgrade of `transaction.version` below 3 would harm."""
        return queries.two_phase_transactions(self.table)
