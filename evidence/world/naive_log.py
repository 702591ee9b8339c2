"""What the log is compared with: a list of batches, and producers kept by the plainest rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.types import AbortedTransaction, ProducerSnapshotEntry
from oncelog.wire.record_batch import RecordBatch, batches, build_batch, build_end_txn_marker, set_offsets

NOW_MS = 1_700_000_000_000


class NaiveProducers:
    """The observer of a recovery, and the snapshot source of a log."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerSnapshotEntry] = {}
        self.loads = 0

    def load_snapshot(self, entries: Sequence[ProducerSnapshotEntry]) -> None:
        self.loads += 1
        self.entries = {entry.producer_id: entry for entry in entries}

    def snapshot_entries(self) -> list[ProducerSnapshotEntry]:
        return list(self.entries.values())

    def replay(self, batch: RecordBatch) -> AbortedTransaction | None:
        if batch.producer_id < 0:
            return None
        known = self.entries.get(batch.producer_id)
        first_offset = known.current_txn_first_offset if known else -1
        marker = batch.end_txn_marker()
        aborted = None
        if marker is not None:
            if first_offset >= 0 and not marker.commit:
                opened = [
                    entry.current_txn_first_offset
                    for entry in self.entries.values()
                    if entry.producer_id != batch.producer_id and entry.current_txn_first_offset >= 0
                ]
                last_stable_offset = min([*opened, batch.last_offset + 1])
                aborted = AbortedTransaction(batch.producer_id, first_offset, batch.last_offset, last_stable_offset)
            first_offset = -1
        elif batch.is_transactional and first_offset < 0:
            first_offset = batch.base_offset
        self.entries[batch.producer_id] = ProducerSnapshotEntry(
            batch.producer_id,
            batch.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset_delta,
            batch.max_timestamp,
            marker.coordinator_epoch if marker else -1,
            first_offset,
        )
        return aborted

    @property
    def last_stable_offset(self) -> int | None:
        opened = [e.current_txn_first_offset for e in self.entries.values() if e.current_txn_first_offset >= 0]
        return min(opened, default=None)


def data_batch(
    base_offset: int,
    *,
    count: int = 1,
    value_bytes: int = 10,
    producer_id: int = -1,
    timestamp_ms: int = NOW_MS,
    leader_epoch: int = 0,
    sequence: int = 0,
) -> bytes:
    """A batch as a leader writes it; transactional when it has a producer id."""
    records = [(timestamp_ms + i, b"k", bytes([base_offset % 251]) * value_bytes, ()) for i in range(count)]
    batch = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    set_offsets(batch, base_offset, leader_epoch)
    return bytes(batch)


def marker_batch(
    base_offset: int, producer_id: int, *, commit: bool, timestamp_ms: int = NOW_MS, leader_epoch: int = 0
) -> bytes:
    """A marker as a leader writes it."""
    batch = build_end_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, timestamp_ms=timestamp_ms
    )
    set_offsets(batch, base_offset, leader_epoch)
    return bytes(batch)


@dataclass(frozen=True)
class NaiveBatch:
    """One appended batch."""

    base_offset: int
    last_offset: int
    data: bytes


def only(data: bytes) -> RecordBatch:
    """The one batch in `data`."""
    (batch,) = batches(data)
    return batch


def naive_read(model: list[NaiveBatch], offset: int, end_offset: int) -> list[NaiveBatch]:
    """All batches from the one that reaches `offset`, none that reaches `end_offset`."""
    return [batch for batch in model if batch.last_offset >= offset and batch.last_offset < end_offset]


def naive_aborted(
    model: list[AbortedTransaction], fetch_offset: int, upper_bound_offset: int
) -> list[AbortedTransaction]:
    """What a reader of [fetch_offset, upper_bound_offset) must be told at least."""
    return [a for a in model if a.last_offset >= fetch_offset and a.first_offset < upper_bound_offset]
