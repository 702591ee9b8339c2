"""Which batches a cleaning may discard because of the transaction they belong to.

Data of an aborted transaction may go at once. A marker may go when nothing of its transaction was met on the way to it:
then an earlier cleaning has removed the last of it (and only after its delete horizon: see `batch_filter`). One object
sees all batches of one cleaning in order, over all groups of segments (KAFKA-8351); markers are never judged by key
(KAFKA-14055).
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.types import AbortedTransaction
from oncelog.wire.record_batch import RecordBatch


class _OpenAbort:
    __slots__ = ("entry", "has_data")

    def __init__(self, entry: AbortedTransaction) -> None:
        self.entry = entry
        self.has_data = False


class CleanedTransactions:
    """`aborted` are the transaction index entries that overlap what will be read, in any order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._due = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open_aborts: dict[int, _OpenAbort] = {}
        self._with_data: set[int] = set()  # producers of other transactions of which a batch was met
        self._retained: list[AbortedTransaction] = []

    def take_retained(self) -> list[AbortedTransaction]:
        """Entries of the aborted transactions whose marker was met since the last call and that still had data."""
        retained, self._retained = self._retained, []
        return retained

    def may_discard(self, batch: RecordBatch) -> bool:
        """The next batch: does its transaction say that it may go?"""
        while self._due and self._due[-1].first_offset <= batch.last_offset:
            entry = self._due.pop()
            self._open_aborts.setdefault(entry.producer_id, _OpenAbort(entry))
        if batch.is_control:
            return self._may_discard_marker(batch)
        if not batch.is_transactional:
            return False
        aborted = self._open_aborts.get(batch.producer_id)
        if aborted is None:
            self._with_data.add(batch.producer_id)
            return False
        aborted.has_data = True
        return True

    def _may_discard_marker(self, batch: RecordBatch) -> bool:
        if batch.record_count == 0:
            return True  # emptied by an earlier cleaning
        marker = batch.end_txn_marker()
        if marker is None:
            return False  # a control record of another kind
        if marker.commit:
            had_data = batch.producer_id in self._with_data
            self._with_data.discard(batch.producer_id)
            return not had_data
        aborted = self._open_aborts.pop(batch.producer_id, None)
        if aborted is None or not aborted.has_data:
            return True
        # Read before, the index said so; the data goes now, or is emptied: the next cleaning finds none.
        self._retained.append(aborted.entry)
        return False
