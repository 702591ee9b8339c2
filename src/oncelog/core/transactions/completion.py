"""After the decision: the markers' answers, and the Complete record once every partition has its marker.

Apache Kafka gives up the whole completion when one leader answers INVALID_PRODUCER_EPOCH or
TRANSACTION_COORDINATOR_FENCED: the id stays in Prepare until the coordinator is loaded again. Here each partition is
settled by itself:

* INVALID_PRODUCER_EPOCH: the partition has a newer epoch of this producer, so what this transaction wrote there is
  ended already (an operator's marker, or this very marker and the next transaction). There is nothing left to write.
* TRANSACTION_COORDINATOR_FENCED: the partition has met a higher coordinator epoch. We are the coordinator (else our
  appends fail), so the marker is sent again with that epoch, which the shell asks the leader for (DescribeProducers).
* All else that is not success is sent again: markers must arrive.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.core.decision import NOTHING, Decision, MarkersToWrite
from oncelog.core.transactions.end_txn import markers_of
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import PREPARED, TransactionRecord, completed
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass, replace
from oncelog.types import TopicPartition

E = ErrorCode
# As Kafka does: partitions in a format without transactions have no use for a marker.
SETTLED = frozenset({E.NONE, E.INVALID_PRODUCER_EPOCH, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class MarkerResult:
    """What a leader answered; with TRANSACTION_COORDINATOR_FENCED the epoch it has stored, where the shell knows it."""

    error_code: ErrorCode = ErrorCode.NONE
    coordinator_epoch: int = -1


def markers_written(
    table: TransactionTable,
    markers: MarkersToWrite,
    results: Mapping[TopicPartition, MarkerResult],
    now_ms: int,
) -> Decision:
    """Take the answers for these markers; a topic that is gone counts as NONE.

    The decision holds the Complete record when nothing is unwritten, else `markers` to send again. Answers for a
    transaction that is over already are stale and change nothing (KAFKA-16352).
    """
    transaction = table.get(markers.transactional_id)
    if transaction is None or transaction is not markers.prepared or markers.transactional_id in table.pending:
        return NOTHING
    unwritten = table.unwritten[markers.transactional_id]
    unwritten.difference_update(partition for partition, result in results.items() if result.error_code in SETTLED)
    if not unwritten:
        return Decision(records=(completed(transaction, now_ms=now_ms, value_version=table.value_version),))
    return Decision(markers=tuple(_again(markers, results, unwritten)))


def _again(
    markers: MarkersToWrite, results: Mapping[TopicPartition, MarkerResult], unwritten: set[TopicPartition]
) -> list[MarkersToWrite]:
    by_coordinator_epoch: dict[int, set[TopicPartition]] = {}
    for partition, result in results.items():
        if partition in unwritten:
            fenced = result.error_code is E.TRANSACTION_COORDINATOR_FENCED
            coordinator_epoch = max(markers.coordinator_epoch, result.coordinator_epoch if fenced else -1)
            by_coordinator_epoch.setdefault(coordinator_epoch, set()).add(partition)
    return [
        replace(markers, coordinator_epoch=coordinator_epoch, partitions=frozenset(partitions))
        for coordinator_epoch, partitions in sorted(by_coordinator_epoch.items())
    ]


def pending_completions(table: TransactionTable, now_ms: int) -> tuple[Decision, ...]:
    """After loading, and once metadata is wholly known: what every decided transaction still needs.

    Markers go out with this coordinator's epoch to all partitions of the record, also to those that have one already: a
    leader accepts the repetition (KAFKA-19999).
    """
    return tuple(
        _resume(table, transaction, now_ms)
        for transaction in table.transactions.values()
        if transaction.state in PREPARED and transaction.transactional_id not in table.pending
    )


def _resume(table: TransactionTable, transaction: TransactionRecord, now_ms: int) -> Decision:
    if transaction.partitions:
        return Decision(markers=(markers_of(table, transaction),))
    return Decision(records=(completed(transaction, now_ms=now_ms, value_version=table.value_version),))
