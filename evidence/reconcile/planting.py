"""Faults, each planted into a copy of a healthy directory by rewriting its files, and the witness that must be found."""

from __future__ import annotations

import pathlib
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from oncelog.core.reconciliation import findings as kinds
from oncelog.core.two_phase.exactly_once_sink import (
    DECISION,
    Attempt,
    BatchDecision,
    decision_value,
    record_key,
    transactional_id_for,
)
from oncelog.log.checkpoint_files import LOG_START_OFFSETS, offsets_from_bytes, offsets_to_bytes
from oncelog.log.producer_snapshot import snapshot_from_bytes, snapshot_to_bytes
from oncelog.log.transaction_index import aborted_from_bytes, aborted_to_bytes
from oncelog.types import AbortedTransaction, TopicPartition
from oncelog.wire.crc32c import crc32c
from oncelog.wire.log_records import consumer_offsets, transaction_state
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState
from oncelog.wire.record_batch import RecordBatch, batches, build_batch, build_end_txn_marker, set_offsets

OLD_MS = 1_000_000_000_000
UNKNOWN_PRODUCER = 987_654


class Impossible(Exception):
    """This directory has no place for this fault."""


@dataclass(frozen=True)
class Planted:
    """What must be found: a finding of `kind` in this log that covers `offset`, about `producer_id` where there is one."""

    kind: str
    topic: str
    partition: int
    offset: int
    producer_id: int = -1


@dataclass
class Segment:
    """A segment's batches, to be changed and written back."""

    path: pathlib.Path
    batches: list[bytearray]

    @classmethod
    def read(cls, path: pathlib.Path) -> Segment:
        return cls(path, [bytearray(each.data) for each in batches(path.read_bytes())])

    def write(self) -> None:
        self.path.write_bytes(b"".join(self.batches))

    @property
    def topic(self) -> str:
        return self.path.parent.name.rpartition("-")[0]

    @property
    def partition(self) -> int:
        return int(self.path.parent.name.rpartition("-")[2])

    @property
    def end_offset(self) -> int:
        return RecordBatch(self.batches[-1]).end_offset if self.batches else int(self.path.stem)

    def append(self, batch: bytearray) -> int:
        offset = self.end_offset
        set_offsets(batch, offset, 0)
        self.batches.append(batch)
        self.write()
        return offset


@dataclass(frozen=True)
class Transaction:
    """One that a marker ended, as it lies in a segment: `row` is the marker's."""

    segment: Segment
    row: int
    first_offset: int
    marker_offset: int
    producer_id: int
    data_epoch: int
    commit: bool
    is_last: bool  # of its producer in this log


class Place:
    """A copy of a directory, and the dice."""

    def __init__(self, data: pathlib.Path, drawn: random.Random) -> None:
        self.data, self.drawn = data, drawn
        self.is_clean = (data / ".kafka_cleanshutdown").exists()

    def segments(self, pattern: str = "[!_]*", *, filled: bool = True) -> list[Segment]:
        found = [Segment.read(path) for path in sorted(self.data.glob(f"{pattern}-*/*.log"))]
        return [each for each in found if each.batches or not filled]

    def last_segment(self, topic: str) -> Segment:
        """The active segment of one of a topic's partitions."""
        folder = self.drawn.choice(sorted(self.data.glob(f"{topic}-[0-9]*")))
        return Segment.read(max(folder.glob("*.log")))

    def one(self, found: list) -> object:  # type: ignore[type-arg]
        if not found:
            raise Impossible
        return self.drawn.choice(found)

    def transactions(self) -> list[Transaction]:
        """Those that begin and end within one segment."""
        found: list[Transaction] = []
        for segment in self.segments():
            opened: dict[int, tuple[int, int]] = {}
            for row, data in enumerate(segment.batches):
                batch = RecordBatch(data)
                if not batch.is_transactional:
                    continue
                marker = batch.end_txn_marker()
                if marker is None:
                    opened.setdefault(batch.producer_id, (batch.base_offset, batch.producer_epoch))
                elif batch.producer_id in opened:
                    first, data_epoch = opened.pop(batch.producer_id)
                    args = (first, batch.base_offset, batch.producer_id, data_epoch, marker.commit)
                    found.append(Transaction(segment, row, *args, is_last=False))
        newest: dict[tuple[str, int], int] = {}
        for segment in self.segments():
            for data in segment.batches:
                batch = RecordBatch(data)
                newest[(segment.path.parent.name, batch.producer_id)] = batch.base_offset
        return [
            replace(each, is_last=newest[(each.segment.path.parent.name, each.producer_id)] == each.marker_offset)
            for each in found
        ]

    def states(self) -> list[TransactionRecord]:
        """The last record of each transactional id."""
        pairs = []
        for segment in self.segments("__transaction_state"):
            for data in segment.batches:
                pairs += [(each.key, each.value) for each in RecordBatch(data).records()]
        return [each for each in transaction_state.newest_records(pairs) if isinstance(each, TransactionRecord)]


def with_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


# Damage


def _any_batch(place: Place, count_min: int = 3) -> tuple[Segment, int]:
    segment = place.one([each for each in place.segments() if len(each.batches) >= count_min])
    assert isinstance(segment, Segment)
    return segment, place.drawn.randrange(1, len(segment.batches) - 1)


def _damaged(place: Place, change: Callable[[bytearray], object]) -> Planted:
    segment, row = _any_batch(place)
    offset = RecordBatch(segment.batches[row]).base_offset
    change(segment.batches[row])
    segment.write()
    return Planted(kinds.DAMAGED, segment.topic, segment.partition, offset)


def flipped_bit(place: Place) -> Planted:
    def change(batch: bytearray) -> None:
        batch[place.drawn.randrange(61, len(batch))] ^= 1 << place.drawn.randrange(8)

    return _damaged(place, change)


def flipped_header_bit(place: Place) -> Planted:
    def change(batch: bytearray) -> None:
        batch[place.drawn.randrange(21, 61)] ^= 1 << place.drawn.randrange(8)

    return _damaged(place, change)


def broken_length(place: Place) -> Planted:
    return _damaged(
        place,
        lambda batch: struct.pack_into(">i", batch, 8, place.drawn.choice([3, -7, 2_000_000_000, len(batch) + 30])),
    )


def zeroed(place: Place) -> Planted:
    def change(batch: bytearray) -> None:
        batch[:] = bytes(len(batch))

    return _damaged(place, change)


def cut_bytes(place: Place) -> Planted:
    segment, row = _any_batch(place)
    batch, behind = segment.batches[row], segment.batches[row + 1]
    # A marker ends with zeros, and a batch begins with some: where these take the place of those, the batch is whole.
    cuts = [cut for cut in range(20, len(batch) - 5) if not behind.startswith(batch[cut:])]
    offset = RecordBatch(batch).base_offset
    del batch[place.drawn.choice(cuts) :]
    segment.write()
    return Planted(kinds.DAMAGED, segment.topic, segment.partition, offset)


def newer_format(place: Place) -> Planted:
    def change(batch: bytearray) -> None:
        batch[16] = 3

    return _damaged(place, change)


def unknown_codec(place: Place) -> Planted:
    def change(batch: bytearray) -> None:
        batch[22] = batch[22] & ~7 | 6
        with_crc(batch)

    return _damaged(place, change)


# Gaps


def removed_batch(place: Place) -> Planted:
    segment, row = _any_batch(place)
    batch = RecordBatch(segment.batches.pop(row))
    segment.write()
    return Planted(kinds.GAP, segment.topic, segment.partition, batch.base_offset)


def removed_segment(place: Place) -> Planted:
    folders = [sorted(path.glob("*.log")) for path in sorted(place.data.glob("[!_]*-[0-9]*"))]
    logs = place.one([logs for logs in folders if len(logs) >= 3])
    assert isinstance(logs, list)
    path = place.drawn.choice(logs[1:-1])
    segment = Segment.read(path)
    path.unlink()
    return Planted(kinds.GAP, segment.topic, segment.partition, int(path.stem))


def removed_partition(place: Place) -> Planted:
    """Its folder, or only what is in it."""
    if not place.is_clean:
        raise Impossible
    segment = place.one(place.segments())
    assert isinstance(segment, Segment)
    shutil.rmtree(segment.path.parent)
    if place.drawn.random() < 0.5:
        segment.path.parent.mkdir()
    return Planted(kinds.GAP, segment.topic, segment.partition, 0)


def start_behind_the_end(place: Place) -> Planted:
    if not place.is_clean:
        raise Impossible
    segment = place.last_segment("[!_]*")
    start, where = segment.end_offset + 5, TopicPartition(segment.topic, segment.partition)
    path = place.data / LOG_START_OFFSETS
    known = offsets_from_bytes(path.read_bytes()) if path.exists() and path.stat().st_size else {}
    path.write_bytes(offsets_to_bytes(known | {where: start}))
    return Planted(kinds.DAMAGED, segment.topic, segment.partition, segment.end_offset)


# Transactions


def torn(place: Place) -> Planted:
    one = place.one(place.transactions())
    assert isinstance(one, Transaction)
    old = RecordBatch(one.segment.batches[one.row])
    marker = old.end_txn_marker()
    assert marker is not None
    new = build_end_txn_marker(
        commit=not marker.commit,
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp_ms=old.max_timestamp,
    )
    set_offsets(new, old.base_offset, old.partition_leader_epoch)
    one.segment.batches[one.row] = new
    one.segment.write()
    return Planted(kinds.TORN, one.segment.topic, one.segment.partition, one.marker_offset, one.producer_id)


def lost_marker(place: Place) -> Planted:
    """The marker's place is taken by a plain record of the same size."""
    owned = {each.producer_id: each for each in place.states()}

    def tells(one: Transaction) -> bool:
        state = owned.get(one.producer_id)
        is_bumped = RecordBatch(one.segment.batches[one.row]).producer_epoch > one.data_epoch
        return is_bumped and (
            not one.is_last or (state is not None and state.state >= TransactionState.COMPLETE_COMMIT)
        )

    one = place.one([each for each in place.transactions() if tells(each)])
    assert isinstance(one, Transaction)
    old = RecordBatch(one.segment.batches[one.row])
    new = build_batch([(old.max_timestamp, None, bytes(10), ())])
    assert len(new) == old.size_bytes, (len(new), old.size_bytes)
    set_offsets(new, old.base_offset, old.partition_leader_epoch)
    one.segment.batches[one.row] = new
    one.segment.write()
    planted = (one.segment.topic, one.segment.partition, one.first_offset, one.producer_id)
    return Planted(kinds.DECISION_WITHOUT_MARKER, *planted)


def marker_of_ongoing(place: Place) -> Planted:
    """Somebody ends on one partition what its coordinator has as Ongoing."""
    ongoing = [each for each in place.states() if each.state is TransactionState.ONGOING and each.partitions]
    state = place.one(ongoing)
    assert isinstance(state, TransactionRecord)
    where = place.drawn.choice(sorted(each for each in state.partitions if not each.topic.startswith("__")))
    segment = Segment.read(max((place.data / str(where)).glob("*.log")))
    bump = 1 if place.drawn.random() < 0.5 else 0
    marker = build_end_txn_marker(
        commit=place.drawn.random() < 0.5,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch + bump,
        coordinator_epoch=0,
        timestamp_ms=state.last_update_ms + 5000,
    )
    return Planted(
        kinds.MARKER_WITHOUT_DECISION, where.topic, where.partition, segment.append(marker), state.producer_id
    )


def marker_of_nobody(place: Place) -> Planted:
    segment = place.last_segment("orders")
    marker = build_end_txn_marker(
        commit=True, producer_id=UNKNOWN_PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp_ms=OLD_MS
    )
    offset = segment.append(marker)
    return Planted(kinds.MARKER_WITHOUT_DECISION, segment.topic, segment.partition, offset, UNKNOWN_PRODUCER)


def _transactional(producer_id: int, producer_epoch: int) -> bytearray:
    return build_batch(
        [(OLD_MS, b"k", b"hanging", ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )


def hanging_of_nobody(place: Place) -> Planted:
    segment = place.last_segment("pays")
    offset = segment.append(_transactional(UNKNOWN_PRODUCER, 0))
    return Planted(kinds.HANGING, segment.topic, segment.partition, offset, UNKNOWN_PRODUCER)


def hanging_after_the_end(place: Place) -> Planted:
    """A late batch of a transaction that its coordinator has ended."""
    state = place.one([each for each in place.states() if each.state >= TransactionState.COMPLETE_COMMIT])
    assert isinstance(state, TransactionRecord)
    segment = place.last_segment("orders")
    offset = segment.append(_transactional(state.producer_id, state.producer_epoch))
    return Planted(kinds.HANGING, segment.topic, segment.partition, offset, state.producer_id)


def hanging_unregistered(place: Place) -> Planted:
    """A batch of an Ongoing transaction on a partition that was never added to it."""
    ongoing = [each for each in place.states() if each.state is TransactionState.ONGOING]
    state = place.one(ongoing)
    assert isinstance(state, TransactionRecord)
    others = [
        each for each in sorted(place.data.glob("[!_]*-[0-9]*")) if each.name not in {str(p) for p in state.partitions}
    ]
    folder = place.one(others)
    assert isinstance(folder, pathlib.Path)
    segment = Segment.read(max(folder.glob("*.log")))
    offset = segment.append(_transactional(state.producer_id, state.producer_epoch))
    return Planted(kinds.HANGING, segment.topic, segment.partition, offset, state.producer_id)


def _ongoing(transactional_id: str, timeout_ms: int, start_ms: int) -> bytearray:
    record = TransactionRecord(
        transactional_id, UNKNOWN_PRODUCER, 0, timeout_ms, TransactionState.ONGOING, frozenset(), start_ms, start_ms
    )
    key, value = transaction_state.record_to_key_value(record)
    return build_batch([(start_ms, key, value, ())])


def overdue(place: Place) -> Planted:
    segment = place.last_segment("__transaction_state")
    offset = segment.append(_ongoing("gone", 60_000, OLD_MS))
    return Planted(kinds.ORPHANED, segment.topic, segment.partition, offset, UNKNOWN_PRODUCER)


def lost_attempt(place: Place) -> Planted:
    """An attempt of the Spark sink that another one beat."""
    query, run = "0b9b9b42-7a4e-4e5e-9b3c-1d7d4b2b1a11", "feedbeef"
    winner = Attempt(transactional_id_for("oncelog-spark", query, "4", 0, run, 1), "5:0", 1)
    loser = transactional_id_for("oncelog-spark", query, "4", 0, run, 0)
    key = record_key(query, "4", DECISION, run)
    value = decision_value(BatchDecision(query, "4", run, (winner,)))
    folder = place.data / "__oncelog_decisions-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(build_batch([(OLD_MS, key, value, ())]))
    segment = place.last_segment("__transaction_state")
    offset = segment.append(_ongoing(loser, transaction_state.TWO_PHASE_TIMEOUT_MS, OLD_MS))
    return Planted(kinds.ORPHANED, segment.topic, segment.partition, offset, UNKNOWN_PRODUCER)


# What lies beside the log


def _index(place: Place) -> tuple[pathlib.Path, list[AbortedTransaction]]:
    if not place.is_clean:
        raise Impossible  # the next start makes it anew
    found = [path for path in sorted(place.data.glob("[!_]*/*.txnindex")) if path.stat().st_size]
    path = place.one(found)
    assert isinstance(path, pathlib.Path)
    return path, aborted_from_bytes(path.read_bytes(), int(path.stem))


def _index_fault(path: pathlib.Path, entry: AbortedTransaction, offset: int) -> Planted:
    topic, _, number = path.parent.name.rpartition("-")
    return Planted(kinds.ABORTED_INDEX, topic, int(number), offset, entry.producer_id)


def index_entry_lost(place: Place) -> Planted:
    path, entries = _index(place)
    gone = entries.pop(place.drawn.randrange(len(entries)))
    path.write_bytes(b"".join(map(aborted_to_bytes, entries)))
    return _index_fault(path, gone, gone.last_offset)


def index_file_lost(place: Place) -> Planted:
    path, entries = _index(place)
    path.unlink()
    return _index_fault(path, entries[0], entries[0].last_offset)


def index_entry_changed(place: Place) -> Planted:
    path, entries = _index(place)
    number = place.drawn.randrange(len(entries))
    old = entries[number]
    new = place.drawn.choice(
        [
            replace(old, producer_id=old.producer_id + 1),
            replace(
                old,
                first_offset=old.last_offset - 1
                if old.first_offset != old.last_offset - 1
                else max(old.first_offset - 1, 0),
            ),
            replace(old, last_stable_offset=old.last_stable_offset + 1),
        ]
    )
    entries[number] = new
    path.write_bytes(b"".join(map(aborted_to_bytes, entries)))
    return _index_fault(path, new, old.last_offset)


def index_entry_invented(place: Place) -> Planted:
    path, entries = _index(place)
    last = entries[-1]
    made = AbortedTransaction(last.producer_id, last.last_offset, last.last_offset + 1, last.last_offset + 2)
    path.write_bytes(b"".join(map(aborted_to_bytes, [*entries, made])))
    return _index_fault(path, made, made.last_offset)


def _snapshot(place: Place) -> tuple[pathlib.Path, list]:  # type: ignore[type-arg]
    if not place.is_clean:
        raise Impossible
    found = []
    for path in sorted(place.data.glob("[!_]*/*.snapshot")):
        first = min(path.parent.glob("*.log")).stem
        entries = snapshot_from_bytes(path.read_bytes())
        if int(path.stem) > int(first) and any(each.last_sequence >= 0 for each in entries):
            found.append((path, entries))
    chosen = place.one(found)
    assert isinstance(chosen, tuple)
    return chosen


def _changed_snapshot(place: Place, change: Callable[..., object], which: Callable[..., bool]) -> Planted:
    path, entries = _snapshot(place)
    first = int(min(path.parent.glob("*.log")).stem)  # what lies below the log's start cannot be told
    number = place.one(
        [n for n, each in enumerate(entries) if which(each) and (first == 0 or each.last_offset >= first)]
    )
    assert isinstance(number, int)
    old = entries[number]
    entries[number] = change(old)
    path.write_bytes(snapshot_to_bytes(entries))
    topic, _, partition = path.parent.name.rpartition("-")
    return Planted(kinds.PRODUCER_STATE, topic, int(partition), -1, old.producer_id)


def snapshot_epoch(place: Place) -> Planted:
    delta = place.drawn.choice([1, -1])
    return _changed_snapshot(
        place,
        lambda each: replace(each, producer_epoch=each.producer_epoch + delta),
        lambda each: each.producer_epoch > 0,
    )


def snapshot_sequence(place: Place) -> Planted:
    return _changed_snapshot(
        place, lambda each: replace(each, last_sequence=each.last_sequence + 1), lambda each: each.last_sequence >= 0
    )


def snapshot_open(place: Place) -> Planted:
    def change(each):  # type: ignore[no-untyped-def]
        return replace(each, current_txn_first_offset=-1 if each.current_txn_first_offset >= 0 else each.last_offset)

    return _changed_snapshot(place, change, lambda each: each.last_sequence >= 0)


def snapshot_damaged(place: Place) -> Planted:
    path, _ = _snapshot(place)
    data = bytearray(path.read_bytes())
    data[place.drawn.randrange(6, len(data))] ^= 4
    path.write_bytes(data)
    topic, _, partition = path.parent.name.rpartition("-")
    return Planted(kinds.PRODUCER_STATE, topic, int(partition), int(path.stem))


def snapshot_producer_lost(place: Place) -> Planted:
    if not place.is_clean:
        raise Impossible
    found = []
    for path in sorted(place.data.glob("[!_]*/*.snapshot")):
        entries = snapshot_from_bytes(path.read_bytes())
        found += [(path, entries, each) for each in entries if each.current_txn_first_offset >= 0]
    chosen = place.one(found)
    assert isinstance(chosen, tuple)
    path, entries, gone = chosen
    path.write_bytes(snapshot_to_bytes([each for each in entries if each is not gone]))
    topic, _, partition = path.parent.name.rpartition("-")
    return Planted(kinds.PRODUCER_STATE, topic, int(partition), gone.current_txn_first_offset, gone.producer_id)


# Groups


def _committed(place: Place, topic: str, partition: int, offset: int) -> Planted:
    segment = place.last_segment("__consumer_offsets")
    record = consumer_offsets.OffsetCommit("lost", topic, partition, offset, commit_timestamp_ms=OLD_MS)
    key, value = consumer_offsets.record_to_key_value(record)
    where = segment.append(build_batch([(OLD_MS, key, value, ())]))
    return Planted(kinds.OFFSET_NOWHERE, segment.topic, segment.partition, where)


def offset_behind_the_end(place: Place) -> Planted:
    segment = place.last_segment("orders")
    return _committed(place, segment.topic, segment.partition, segment.end_offset + place.drawn.randrange(1, 50))


def offset_in_no_partition(place: Place) -> Planted:
    return _committed(place, "orders", 77, 5)


FAULTS: list[Callable[[Place], Planted]] = [
    flipped_bit,
    flipped_header_bit,
    broken_length,
    zeroed,
    cut_bytes,
    newer_format,
    unknown_codec,
    removed_batch,
    removed_segment,
    removed_partition,
    start_behind_the_end,
    torn,
    lost_marker,
    marker_of_ongoing,
    marker_of_nobody,
    hanging_of_nobody,
    hanging_after_the_end,
    hanging_unregistered,
    overdue,
    lost_attempt,
    index_entry_lost,
    index_file_lost,
    index_entry_changed,
    index_entry_invented,
    snapshot_epoch,
    snapshot_sequence,
    snapshot_open,
    snapshot_damaged,
    snapshot_producer_lost,
    offset_behind_the_end,
    offset_in_no_partition,
]
