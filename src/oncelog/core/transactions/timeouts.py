"""What time does to transactions: open ones time out, transactional ids that nobody uses expire."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.core.decision import Decision
from oncelog.core.transactions.end_txn import fence
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import FINISHED, TransactionRecord, TransactionState, acting, is_two_phase
from oncelog.wire.log_records.transaction_state import TransactionTombstone

TOMBSTONES_PER_BATCH = 1000


def timed_out(table: TransactionTable, now_ms: int) -> Iterator[Decision]:
    """The abort of each transaction that is open longer than its timeout.

    A two-phase transaction has none (KIP-939). The same producer may go on after it (KIP-360, KIP-890): its next
    request at the old epoch is recognised. An id that is busy, or needs a producer id while there is none, comes next
    time.
    """
    for transaction in list(table.transactions.values()):
        if _is_late(transaction, now_ms) and not table.is_busy(transaction.transactional_id):
            ended = fence(table, transaction, acting(transaction), now_ms)
            if ended is not None:
                records, markers = ended
                yield Decision(records=records, markers=markers)


def _is_late(transaction: TransactionRecord, now_ms: int) -> bool:
    return (
        transaction.state is TransactionState.ONGOING
        and not is_two_phase(transaction)
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def expired(table: TransactionTable, now_ms: int) -> Iterator[Decision]:
    """Tombstones for ids without a transaction whose last change is `transactional.id.expiration.ms` ago."""
    before_ms = now_ms - table.config.transactional_id_expiration_ms
    names = [
        transaction.transactional_id
        for transaction in table.transactions.values()
        if transaction.state in FINISHED
        and transaction.last_update_ms <= before_ms
        and not table.is_busy(transaction.transactional_id)
    ]
    for start in range(0, len(names), TOMBSTONES_PER_BATCH):
        yield Decision(records=tuple(map(TransactionTombstone, names[start : start + TOMBSTONES_PER_BATCH])))


def longest_open_ms(table: TransactionTable, now_ms: int) -> int:
    """KIP-939's metric ActiveTransactionOpenTimeMaxMs; 0 when no transaction is open."""
    starts = [t.start_ms for t in table.transactions.values() if t.state is TransactionState.ONGOING]
    return max(0, now_ms - min(starts)) if starts else 0
