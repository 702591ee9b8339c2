"""One partition's log, replayed by what its batches' headers say: which transactions it holds, and where it contradicts itself.

The caller gives, in the order of offsets: runs (consecutive data batches of one producer), markers, gaps and damage; and at
the right offsets the producer snapshots and transaction indexes that lie beside the log. Only producers are remembered, and
those that the broker itself has forgotten are forgotten here as well.

Rule: what is not known is not judged. State from before the log's first batch, below a damaged place, or removed by
compaction never makes a finding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from oncelog.core.reconciliation.findings import (
    ABORTED_INDEX,
    DECISION_WITHOUT_MARKER,
    PRODUCER_STATE,
    Finding,
)
from oncelog.types import NO_OFFSET, NO_SEQUENCE, AbortedTransaction, ProducerSnapshotEntry

PLAIN, TRANSACTIONAL, EMPTIED = 0, 1, 2
NO_COORDINATOR_EPOCH = -1
FINDINGS_MAX = 10_000


class Run(NamedTuple):
    """Consecutive data batches of one producer at one epoch, all of one kind. Offsets of the log; `last_*` is inclusive."""

    producer_id: int
    producer_epoch: int
    kind: int
    first_offset: int
    last_offset: int
    last_sequence: int
    last_offset_delta: int
    last_timestamp: int
    record_count: int


class Marker(NamedTuple):
    """An end-of-transaction marker. `commit` is None for one of which the cleaner left only the header."""

    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    commit: bool | None
    coordinator_epoch: int


class Ended(NamedTuple):
    """A marker and what it ended. `first_offset` is -1 where no data is known of (it may lie below the log's start)."""

    producer_id: int
    data_epoch: int
    marker_epoch: int
    first_offset: int
    last_offset: int
    marker_offset: int
    marker_timestamp: int
    commit: bool
    coordinator_epoch: int


class Open(NamedTuple):
    """A transaction without a marker at the log's end. `is_uncertain`: its marker may lie in what cannot be read.

    `last_marker_timestamp` is of the producer's marker before it, -1 where there is none.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    last_timestamp: int
    is_uncertain: bool
    last_marker_timestamp: int = -1


class _Producer:
    __slots__ = (
        "coordinator_epoch",
        "is_adopted",
        "last_data_offset",
        "last_marker_timestamp",
        "last_offset",
        "last_offset_delta",
        "last_sequence",
        "open_epoch",
        "open_first_offset",
        "producer_epoch",
        "timestamp",
        "touched_offset",
    )

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.last_sequence = NO_SEQUENCE
        self.last_offset = NO_OFFSET  # of the last batch with a sequence at this epoch
        self.last_offset_delta = 0
        self.timestamp = -1
        self.last_marker_timestamp = -1
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.open_first_offset = NO_OFFSET
        self.open_epoch = -1
        self.last_data_offset = NO_OFFSET
        self.touched_offset = NO_OFFSET
        self.is_adopted = False  # known from a snapshot alone


class PartitionReplay:
    """Replays one log from its first retained offset, `start_offset`."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.is_compacted = False
        self.damage_end_offset = NO_OFFSET
        self.findings: list[Finding] = []
        self.aborted: dict[int, AbortedTransaction] = {}  # of the present segment, by the marker's offset
        self.markers_without_data: dict[
            int, tuple[int, bool]
        ] = {}  # of the present segment: offset, (producer, commit)
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}  # producer id: first offset; ascending, as transactions open at the log's end
        self._uncertain: set[int] = set()

    def gap(self) -> None:
        """Compaction removed something here."""
        self.is_compacted = True

    def damage(self, end_offset: int) -> None:
        """What lies below `end_offset` and above the last batch cannot be read."""
        self.damage_end_offset = max(self.damage_end_offset, end_offset)
        self._uncertain.update(self._open)

    def take_run(self, run: Run) -> None:
        """The next run."""
        producer = self._producers.get(run.producer_id)
        if producer is None:
            producer = self._producers[run.producer_id] = _Producer(run.producer_epoch)
        elif run.producer_epoch > producer.producer_epoch:
            if producer.open_first_offset != NO_OFFSET and run.kind == TRANSACTIONAL:
                self._marker_is_missing(run, producer)
            self._raise_epoch(producer, run.producer_epoch)
        producer.is_adopted = False
        producer.timestamp = run.last_timestamp
        producer.touched_offset = run.last_offset
        if run.last_sequence >= 0 and run.producer_epoch == producer.producer_epoch:
            producer.last_sequence = run.last_sequence
            producer.last_offset = run.last_offset
            producer.last_offset_delta = run.last_offset_delta
        if run.kind != TRANSACTIONAL:
            return
        if producer.open_first_offset == NO_OFFSET:
            producer.open_first_offset = run.first_offset
            producer.open_epoch = run.producer_epoch
            self._open[run.producer_id] = run.first_offset
        producer.last_data_offset = run.last_offset

    def take_marker(self, marker: Marker) -> Ended | None:
        """The next marker; what it ended, None for one that was emptied."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            producer = self._producers[marker.producer_id] = _Producer(marker.producer_epoch)
        first_offset, data_epoch = producer.open_first_offset, producer.open_epoch
        last_offset = producer.last_data_offset
        if marker.producer_epoch > producer.producer_epoch:
            self._raise_epoch(producer, marker.producer_epoch)
        producer.is_adopted = False
        producer.timestamp = marker.timestamp
        producer.touched_offset = marker.offset
        if marker.commit is None:
            return None
        producer.last_marker_timestamp = marker.timestamp
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        producer.open_first_offset, producer.open_epoch, producer.last_data_offset = NO_OFFSET, -1, NO_OFFSET
        if first_offset == NO_OFFSET:
            self.markers_without_data[marker.offset] = (marker.producer_id, marker.commit)
            data_epoch = -1
        else:
            del self._open[marker.producer_id]
            self._uncertain.discard(marker.producer_id)
            if not marker.commit:
                stable = next(iter(self._open.values()), marker.offset + 1)
                self.aborted[marker.offset] = AbortedTransaction(
                    marker.producer_id, first_offset, marker.offset, stable
                )
        return Ended(
            marker.producer_id,
            data_epoch,
            marker.producer_epoch,
            first_offset,
            last_offset,
            marker.offset,
            marker.timestamp,
            marker.commit,
            marker.coordinator_epoch,
        )

    def open_transactions(self) -> list[Open]:
        """Those that no marker has ended, by first offset."""
        found = []
        for producer_id, first_offset in self._open.items():
            producer = self._producers[producer_id]
            found.append(
                Open(
                    producer_id,
                    producer.open_epoch,
                    first_offset,
                    producer.last_data_offset,
                    producer.timestamp,
                    producer_id in self._uncertain,
                    producer.last_marker_timestamp,
                )
            )
        return found

    # What lies beside the log

    def compare_snapshot(self, end_offset: int, entries: Iterable[ProducerSnapshotEntry], file: str) -> None:
        """Everything below `end_offset` was replayed: does the snapshot say the same? Missing history is taken from it."""
        given = {entry.producer_id: entry for entry in entries}
        for producer_id, entry in given.items():
            producer = self._producers.get(producer_id)
            problem = self._unknown_problem(entry) if producer is None else self._entry_problem(producer, entry)
            if problem is not None:
                first = self._open.get(producer_id, NO_OFFSET)
                witness = producer.touched_offset if producer is not None else entry.last_offset
                self._snapshot_differs(
                    file, producer_id, entry.producer_epoch, first if first >= 0 else witness, witness, problem
                )
            if producer is None:
                self._adopt(entry, end_offset)
        missing = [each for each in self._producers if each not in given]
        if missing:
            self._judge_missing(missing, given, file)
            for producer_id in missing:
                if producer_id not in self._open:
                    del self._producers[producer_id]  # the broker has forgotten it as well

    def compare_transaction_index(self, entries: Iterable[AbortedTransaction], file: str, end_offset_max: int) -> None:
        """A segment was replayed: does its transaction index say the same? Begins the next segment.

        Entries whose marker lies at `end_offset_max` or above are made again by a recovery: they may be missing.
        """
        expected, self.aborted = self.aborted, {}
        bare, self.markers_without_data = self.markers_without_data, {}
        for entry in entries:
            known = expected.pop(entry.last_offset, None)
            problem = (
                self._extra_problem(entry, bare.get(entry.last_offset))
                if known is None
                else self._index_problem(entry, known)
            )
            if problem is not None:
                self._index_differs(file, entry, problem)
        for offset, known in expected.items():
            if offset < end_offset_max and known.first_offset >= self.damage_end_offset:
                self._index_differs(file, known, "the index has no entry for this aborted transaction")

    def _entry_problem(self, producer: _Producer, entry: ProducerSnapshotEntry) -> str | None:
        if producer.touched_offset < self.damage_end_offset or producer.is_adopted:
            return None
        if producer.producer_epoch > entry.producer_epoch or (
            producer.producer_epoch < entry.producer_epoch and not self.is_compacted
        ):
            return f"epoch {entry.producer_epoch} in the snapshot, {producer.producer_epoch} in the log"
        open_first = entry.current_txn_first_offset
        if open_first != producer.open_first_offset and not self._may_be_gone(open_first, producer.open_first_offset):
            here = _offset(producer.open_first_offset)
            return f"open transaction from {_offset(open_first)} in the snapshot, {here} in the log"
        coordinator = producer.coordinator_epoch
        is_known = coordinator not in (NO_COORDINATOR_EPOCH, entry.coordinator_epoch)
        if is_known and not (self.is_compacted and entry.coordinator_epoch > coordinator):
            return f"coordinator epoch {entry.coordinator_epoch} in the snapshot, {coordinator} in the log"
        return self._sequence_problem(producer, entry)

    def _may_be_gone(self, first_offset: int, in_log: int) -> bool:
        """Whether what lies at `first_offset` may have been removed: below the log's start, or by compaction later on."""
        if first_offset == NO_OFFSET:
            return False
        is_earlier = in_log == NO_OFFSET or first_offset < in_log
        return first_offset < self.start_offset or (self.is_compacted and is_earlier)

    def _sequence_problem(self, producer: _Producer, entry: ProducerSnapshotEntry) -> str | None:
        if producer.last_sequence == NO_SEQUENCE:
            # Coordinators write without sequences: what Apache Kafka notes then is no sequence.
            is_known = entry.last_sequence == NO_SEQUENCE or entry.last_offset < self.start_offset or self.is_compacted
            return None if is_known else f"sequence {entry.last_sequence} in the snapshot, none in the log"
        if self.is_compacted and entry.last_offset > producer.last_offset:
            return None
        if (entry.last_sequence, entry.last_offset) != (producer.last_sequence, producer.last_offset):
            return (
                f"last sequence {entry.last_sequence} at offset {entry.last_offset} in the snapshot, "
                f"{producer.last_sequence} at offset {producer.last_offset} in the log"
            )
        if entry.offset_delta != producer.last_offset_delta:
            given, here = entry.offset_delta + 1, producer.last_offset_delta + 1
            return f"a last batch of {given} records in the snapshot, of {here} in the log"
        return None

    def _unknown_problem(self, entry: ProducerSnapshotEntry) -> str | None:
        if self.is_compacted or self.damage_end_offset != NO_OFFSET:
            return None
        if entry.current_txn_first_offset >= self.start_offset:
            first = entry.current_txn_first_offset
            return f"an open transaction from offset {first}, where the log has no batch of this producer"
        if entry.last_offset >= self.start_offset:
            return f"a last batch at offset {entry.last_offset}, where the log has none of this producer"
        # Silent markers (coordinator epoch without data) may lie below the log's start as well: nothing tells.
        return None

    def _judge_missing(self, missing: list[int], given: Mapping[int, ProducerSnapshotEntry], file: str) -> None:
        # A producer is forgotten when it was silent for long: then no older one is left that has nothing open.
        kept = sorted(
            (known.timestamp, known.touched_offset)
            for producer_id in given
            if producer_id not in self._open
            and not (known := self._producers[producer_id]).is_adopted
            and known.touched_offset >= 0
        )
        timestamps = [timestamp for timestamp, _ in kept]
        earliest = list(accumulate((touched for _, touched in kept), min))  # of those up to each timestamp
        for producer_id in missing:
            producer = self._producers[producer_id]
            if producer.touched_offset < self.damage_end_offset:
                continue
            is_open = producer_id in self._open
            number = bisect_right(timestamps, producer.timestamp)
            older = number > 0 and earliest[number - 1] <= producer.touched_offset
            if is_open or older:
                why = "its transaction is open" if is_open else "an older one is still there"
                first = producer.open_first_offset if is_open else producer.touched_offset
                self._snapshot_differs(
                    file,
                    producer_id,
                    producer.producer_epoch,
                    first,
                    producer.touched_offset,
                    f"it is not in the snapshot, though {why}",
                )

    def _adopt(self, entry: ProducerSnapshotEntry, end_offset: int) -> None:
        producer = self._producers[entry.producer_id] = _Producer(entry.producer_epoch)
        producer.is_adopted = True
        producer.timestamp = entry.timestamp
        producer.coordinator_epoch = entry.coordinator_epoch
        if NO_OFFSET < entry.current_txn_first_offset < min(self.start_offset, end_offset):
            producer.open_first_offset = entry.current_txn_first_offset
            producer.open_epoch = entry.producer_epoch
            producer.last_data_offset = max(entry.last_offset, entry.current_txn_first_offset)
            self._open[entry.producer_id] = entry.current_txn_first_offset
            self._open = dict(sorted(self._open.items(), key=lambda each: each[1]))

    def _extra_problem(self, entry: AbortedTransaction, bare: tuple[int, bool] | None) -> str | None:
        may_be_gone = self.is_compacted or entry.first_offset < max(self.start_offset, self.damage_end_offset)
        if bare is not None:
            producer_id, commit = bare
            if producer_id == entry.producer_id and not commit and may_be_gone:
                return None
        elif may_be_gone and (self.is_compacted or entry.last_offset < self.damage_end_offset):
            return None
        return f"the log has no aborted transaction of producer {entry.producer_id} that ends at offset {entry.last_offset}"

    def _index_problem(self, entry: AbortedTransaction, known: AbortedTransaction) -> str | None:
        if entry.producer_id != known.producer_id:
            return f"producer {entry.producer_id} in the index, {known.producer_id} in the log"
        if entry.first_offset != known.first_offset:
            # Data that was cleaned, or lies below the start, was earlier.
            lies_before = self.is_compacted or entry.first_offset < max(self.start_offset, self.damage_end_offset)
            if not (lies_before and entry.first_offset < known.first_offset):
                return f"from offset {entry.first_offset} in the index, from {known.first_offset} in the log"
        stable = entry.last_stable_offset
        is_certain = not self.is_compacted and self.damage_end_offset == NO_OFFSET and stable >= self.start_offset
        if stable != known.last_stable_offset and is_certain:
            return f"last stable offset {stable} in the index, {known.last_stable_offset} in the log"
        return None

    def _marker_is_missing(self, run: Run, producer: _Producer) -> None:
        if run.producer_id not in self._uncertain:
            self._add(
                Finding(
                    DECISION_WITHOUT_MARKER,
                    f"producer {run.producer_id} wrote a transaction at epoch {producer.open_epoch} and then, at offset "
                    f"{run.first_offset}, another at epoch {run.producer_epoch}: the first one's marker is missing",
                    first_offset=producer.open_first_offset,
                    last_offset=producer.last_data_offset,
                    producer_id=run.producer_id,
                    producer_epoch=producer.open_epoch,
                )
            )
        del self._open[run.producer_id]
        self._uncertain.discard(run.producer_id)
        producer.open_first_offset, producer.open_epoch = NO_OFFSET, -1

    def _add(self, finding: Finding) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)

    @staticmethod
    def _raise_epoch(producer: _Producer, producer_epoch: int) -> None:
        producer.producer_epoch = producer_epoch
        producer.last_sequence, producer.last_offset, producer.last_offset_delta = NO_SEQUENCE, NO_OFFSET, 0

    def _snapshot_differs(
        self, file: str, producer_id: int, producer_epoch: int, first: int, last: int, problem: str
    ) -> None:
        self._add(
            Finding(
                PRODUCER_STATE,
                f"producer {producer_id}: {problem}",
                first_offset=first,
                last_offset=last,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                file=file,
            )
        )

    def _index_differs(self, file: str, entry: AbortedTransaction, problem: str) -> None:
        self._add(
            Finding(
                ABORTED_INDEX,
                problem,
                first_offset=entry.first_offset,
                last_offset=entry.last_offset,
                producer_id=entry.producer_id,
                file=file,
            )
        )


def _offset(offset: int) -> str:
    return "nowhere" if offset == NO_OFFSET else f"offset {offset}"
