"""Cleaning takes away what it may and nothing else (S20): the files are compared with all that was ever appended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evidence.simulator.checkers.raw_log import RawLogs
from oncelog.types import TopicPartition
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch

INTERNAL = ("__transaction_state", "__consumer_offsets")
Reads = Sequence[tuple[str, TopicPartition, int, bytes | None]]  # reader, partition, offset, key


@dataclass
class Fates:
    """What became of each batch's transaction: the offset of its marker, and whether that commits."""

    ends: dict[int, tuple[int, bool]] = field(default_factory=dict)
    visible: list[Record] = field(default_factory=list)
    latest: dict[bytes | None, Record] = field(default_factory=dict)  # the last visible record of each key

    has_open: bool = False  # a transaction has no marker yet

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether nobody may see its records."""
        return batch.base_offset in self.ends and not self.ends[batch.base_offset][1]


def fates_of(whole: Sequence[RecordBatch]) -> Fates:
    """Walk one partition's batches, nothing of which was cleaned."""
    fates, open_batches = Fates(), dict[int, list[RecordBatch]]()
    for batch in whole:
        if batch.is_control:
            marker = batch.end_txn_marker()
            assert marker is not None
            for each in open_batches.pop(batch.producer_id, []):
                fates.ends[each.base_offset] = batch.base_offset, marker.commit
                if marker.commit:
                    fates.visible += each.records()
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
        else:
            fates.visible += batch.records()
    fates.has_open = any(open_batches.values())
    fates.visible.sort()
    fates.latest = {record.key: record for record in fates.visible}
    return fates


def check_cleaning(
    logs: RawLogs, whole: RawLogs, *, compacted: Collection[str], tombstones_may_go: bool
) -> Iterator[str]:
    """`logs` are the files, `whole` what was appended. Without `tombstones_may_go` their retention is not over."""
    for name, found in sorted(logs.partitions.items()):
        all_of = whole.partitions[name]
        yield from _retained(name, found, {batch.base_offset: batch for batch in all_of})
        is_compacted = name.topic in compacted or name.topic in INTERNAL
        left = {batch.base_offset: batch for batch in found}
        fates = fates_of(all_of)
        for batch in all_of:
            kept = left.get(batch.base_offset)
            if not is_compacted or batch.base_offset >= logs.active[name]:
                if kept is None or kept.data != batch.data:
                    yield f"{name}@{batch.base_offset} is not what was appended"
                continue
            if batch.is_control:
                continue  # below, from the data that needs it
            if kept is not None and kept.record_count:
                yield from _marker(name, batch, left, fates)
            yield from _removed(name, batch, kept, fates, tombstones_may_go=tombstones_may_go)


def _retained(name: TopicPartition, found: Sequence[RecordBatch], appended: Mapping[int, RecordBatch]) -> Iterator[str]:
    for batch in found:
        at, original = f"{name}@{batch.base_offset}", appended.get(batch.base_offset)
        if original is None:
            yield f"{at} was never appended"
            continue
        if batch.data == original.data:
            continue
        if _identity(batch) != _identity(original):
            yield f"{at}: a cleaning changed {_identity(original)} to {_identity(batch)}"
        if batch.record_count and not {*batch.records()} <= {*original.records()}:
            yield f"{at}: a cleaning changed records"


def _identity(batch: RecordBatch) -> tuple[object, ...]:
    return (
        batch.last_offset,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
    )


def _marker(name: TopicPartition, batch: RecordBatch, left: Mapping[int, RecordBatch], fates: Fates) -> Iterator[str]:
    end = fates.ends.get(batch.base_offset)
    if end is not None and (end[0] not in left or not left[end[0]].record_count):
        yield f"S20: {name}@{batch.base_offset} is still there, its transaction's marker at {end[0]} is not"


def _removed(
    name: TopicPartition, batch: RecordBatch, kept: RecordBatch | None, fates: Fates, *, tombstones_may_go: bool
) -> Iterator[str]:
    if fates.is_aborted(batch) or (kept is not None and kept.record_count == batch.record_count):
        return
    left = {record.offset for record in kept.records()} if kept is not None else set()
    for record in batch.records():
        latest = fates.latest.get(record.key)
        is_superseded = latest is not None and latest.offset > record.offset
        may_go = is_superseded or (record.value is None and tombstones_may_go)
        if record.offset not in left and not may_go:
            yield f"S20: {name}: the last record of {record.key!r}, at {record.offset}, was cleaned away"


def check_compacted_reads(reads: Reads, whole: RawLogs, *, whole_readers: Collection[str]) -> Iterator[str]:
    """Nobody saw what was not committed; `whole_readers`, who read from the beginning to the end, saw each last value."""
    names = sorted({name for _, name, _, _ in reads})
    fates = {name: fates_of(whole.partitions.get(name, [])) for name in names}
    offsets = {name: {record.offset for record in fates[name].visible} for name in names}
    for reader, name, offset, key in reads:
        if offset not in offsets[name]:
            yield f"{reader} read {key!r} at {name}@{offset}, which nobody committed"
    for reader in sorted(whole_readers):
        for name in names:
            last = {key: offset for who, where, offset, key in reads if who == reader and where == name}
            for key, record in sorted(fates[name].latest.items(), key=lambda item: item[1].offset):
                may_be_gone = record.value is None and key not in last
                if last.get(key) != record.offset and not may_be_gone:
                    yield f"{reader} read {key!r} of {name} last at {last.get(key)}, it is at {record.offset}"
