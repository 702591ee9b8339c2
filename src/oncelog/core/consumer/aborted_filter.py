"""read_committed on the client's side: which fetched batches the application sees (KIP-98).

The broker sends data below the last stable offset only, and names the aborted transactions that overlap it; every other
transaction is committed. Two things to know: the list comes in the order of the markers, and a transaction may have
two markers (a marker whose answer was lost is written again).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from oncelog.wire.record_batch import RecordBatch


class AbortedRange(Protocol):
    """An aborted transaction of a fetch response: where it begins; its ABORT marker says where it ends."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedFilter:
    """Filters the batches of one partition of one fetch response, in offset order."""

    def __init__(self, aborted_transactions: Iterable[AbortedRange]) -> None:
        self._upcoming = sorted(
            ((aborted.first_offset, aborted.producer_id) for aborted in aborted_transactions), reverse=True
        )
        self._aborted_producer_ids: set[int] = set()

    def is_visible(self, batch: RecordBatch) -> bool:
        """Whether the application sees the batch. Call it for every batch once, also those it cannot see."""
        while self._upcoming and self._upcoming[-1][0] <= batch.last_offset:
            self._aborted_producer_ids.add(self._upcoming.pop()[1])
        if batch.is_control:
            marker = batch.end_txn_marker()
            if marker is not None and not marker.commit:
                self._aborted_producer_ids.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborted_producer_ids)
