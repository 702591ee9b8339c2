"""What a cleaning leaves of a batch: Apache Kafka's rules, decided from headers, keys and the offset map.

* A record goes when a later one of its key is in the map; a tombstone also when its delete horizon has passed.
* The horizon is set by the first cleaning that meets a tombstone, or a marker whose transaction has no data any more:
  now + delete.retention.ms, in place of the batch's base timestamp (KIP-534), so readers have that long to see it.
* The last batch of a producer that is still remembered stays as an empty header, for its sequence; where the producer's
  epoch is newer than its data, the last marker of that epoch stays so.
* So does the last batch of what becomes one segment: its last offset tells a start, after a crash amid the swap, which
  files the segment replaces. (Apache Kafka keeps only the one that ends the cleaning's range.)
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.lazy_dataclass import dataclass
from oncelog.log.cleaned_transactions import CleanedTransactions
from oncelog.log.files import Buffer
from oncelog.log.offset_map import OffsetMap
from oncelog.log.retained_records import emptied, with_records
from oncelog.types import ProducerSnapshotEntry
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch
from oncelog.wire.record_codec import parse_records


@dataclass(frozen=True, slots=True)
class FilterRules:
    """What one cleaning knows besides the batches. Times in ms.

    `producers` are the remembered producers by id; `last_markers` the offset of the last marker that was met of each.
    """

    offsets: OffsetMap
    producers: Mapping[int, ProducerSnapshotEntry]
    last_markers: Mapping[int, int]
    now_ms: int
    delete_retention_ms: int


class BatchFilter:
    """Give it every batch from the log's first on, in order."""

    def __init__(self, rules: FilterRules, transactions: CleanedTransactions) -> None:
        self._rules = rules
        self._transactions = transactions

    def filtered(self, batch: RecordBatch, *, is_last_of_group: bool) -> Buffer | None:
        """What stays: the batch's own bytes where nothing changes, other bytes, or None. Raises CorruptBatch."""
        rules = self._rules
        may_discard = self._transactions.may_discard(batch)
        horizon_ms = batch.base_timestamp if batch.has_delete_horizon else None
        has_passed = horizon_ms is not None and horizon_ms <= rules.now_ms
        keeps_header = is_last_of_group or self._is_last_of_producer(batch)
        if batch.record_count == 0:
            return batch.data if keeps_header else None
        if may_discard and (has_passed or not batch.is_control):
            return emptied(batch) if keeps_header else None
        section = batch.section()
        records = parse_records(
            section, batch.record_count, batch.base_offset, batch.base_timestamp, batch.append_timestamp
        )
        kept = list(range(len(records))) if batch.is_control else self._kept(records, has_passed=has_passed)
        if not kept:
            return emptied(batch) if keeps_header else None
        wants_horizon = horizon_ms is None and (may_discard or any(records[index].value is None for index in kept))
        if len(kept) == len(records) and not wants_horizon:
            return batch.data
        max_timestamp = max(records[index].timestamp for index in kept)
        if wants_horizon:
            new_horizon_ms = rules.now_ms + rules.delete_retention_ms
            try:
                return with_records(batch, section, kept, max_timestamp=max_timestamp, delete_horizon_ms=new_horizon_ms)
            except OverflowError:  # timestamps of another age of the world: such a tombstone just stays
                if len(kept) == len(records):
                    return batch.data
        return with_records(batch, section, kept, max_timestamp=max_timestamp)

    def _kept(self, records: list[Record], *, has_passed: bool) -> list[int]:
        latest_offset = self._rules.offsets.latest_offset
        last_offset_of = self._rules.offsets.last_offset_of
        kept = []
        for index, (offset, _, key, value, _) in enumerate(records):
            if offset > latest_offset or (
                # a record without a key can only be older than the topic's compaction
                key is not None and offset >= last_offset_of(key) and (value is not None or not has_passed)
            ):
                kept.append(index)
        return kept

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        producer = self._rules.producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.last_offset >= 0:
            return batch.last_offset == producer.last_offset
        return (
            batch.is_control
            and batch.producer_epoch == producer.producer_epoch
            and batch.last_offset >= self._rules.last_markers.get(batch.producer_id, -1)
        )
