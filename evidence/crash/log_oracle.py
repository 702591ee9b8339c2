"""A reader of the files alone: what every data directory must obey, however often it was torn and recovered.

It shares only the formats of records and checkpoints with what it judges. Rules (S4, S6, S7, S9, S10 of the test plan): sequences
of a producer epoch begin at 0 and have no gap or repetition; epochs never fall; nothing of an epoch comes after a marker of a
higher one; all markers of a transaction agree, with each other and with the coordinator; Complete is preceded by every marker; an
open transaction in a partition is one that the coordinator still owns; a decided one is never decided otherwise.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from oncelog.log.checkpoint_files import CLEANED_OFFSETS, offsets_from_bytes
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, record_from_key_value
from oncelog.wire.record_batch import RecordBatch, batches

S = TransactionState
ENDED = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
FOLLOWS: dict[TransactionState, tuple[TransactionState | None, ...]] = {
    S.EMPTY: (None, *ENDED),
    S.ONGOING: (S.ONGOING, *ENDED),
    S.PREPARE_COMMIT: (S.ONGOING,),
    S.PREPARE_ABORT: (S.ONGOING, *ENDED),  # from an ended one: the empty abort of KIP-890
    S.COMPLETE_COMMIT: (S.PREPARE_COMMIT,),
    S.COMPLETE_ABORT: (S.PREPARE_ABORT,),
}
SEQUENCES = 2**31


@dataclass
class _Producer:
    epoch_of_data: int = -1
    epoch_of_marker: int = -1
    next_sequence: int = 0
    open_from: int | None = None


@dataclass
class Examination:
    """What was found: `problems` in words, and the open transactions by partition."""

    problems: list[str] = field(default_factory=list)
    open: dict[tuple[str, int], int] = field(default_factory=dict)  # (partition, producer id): first offset
    markers: dict[tuple[int, int], dict[str, set[bool]]] = field(default_factory=dict)  # (id, epoch): partition: commit
    coordinator: dict[str, list[TransactionRecord]] = field(default_factory=dict)
    compacted_ids: set[str] = field(
        default_factory=set
    )  # whose coordinator's log was cleaned: only last states are known

    def partition(self, name: str, log: Iterator[RecordBatch]) -> None:
        """One partition of data or offsets."""
        producers: dict[int, _Producer] = {}
        for batch in log:
            if batch.producer_id < 0:
                continue
            producer = producers.setdefault(batch.producer_id, _Producer())
            where = f"{name}@{batch.base_offset} producer {batch.producer_id}:{batch.producer_epoch}"
            if batch.is_control:
                self._marker(name, where, batch, producer)
            else:
                self._data(where, batch, producer)
        for producer_id, producer in producers.items():
            if producer.open_from is not None:
                self.open[name, producer_id] = producer.open_from

    def _marker(self, name: str, where: str, batch: RecordBatch, producer: _Producer) -> None:
        marker = batch.end_txn_marker()
        assert marker is not None, where
        if batch.producer_epoch < producer.epoch_of_marker:
            self.problems.append(f"{where}: marker after one of epoch {producer.epoch_of_marker}")
        producer.epoch_of_marker = batch.producer_epoch
        producer.open_from = None
        identity = (batch.producer_id, batch.producer_epoch)
        self.markers.setdefault(identity, {}).setdefault(name, set()).add(marker.commit)

    def _data(self, where: str, batch: RecordBatch, producer: _Producer) -> None:
        if batch.producer_epoch < max(producer.epoch_of_data, producer.epoch_of_marker):
            self.problems.append(f"{where}: an older epoch writes after a newer one")
        if batch.base_sequence >= 0:  # the coordinator's batches of offsets have none
            expected = producer.next_sequence if batch.producer_epoch == producer.epoch_of_data else 0
            if batch.base_sequence != expected:
                self.problems.append(f"{where}: sequence {batch.base_sequence} where {expected} is due")
            producer.next_sequence = (batch.last_sequence + 1) % SEQUENCES
        producer.epoch_of_data = batch.producer_epoch
        if batch.is_transactional and producer.open_from is None:
            producer.open_from = batch.base_offset

    def coordinator_log(self, log: Iterator[RecordBatch], *, is_compacted: bool = False) -> None:
        """One partition of `__transaction_state`."""
        for batch in log:
            for stored in batch.records():
                record = record_from_key_value(stored.key, stored.value)
                if isinstance(record, TransactionRecord):
                    self.coordinator.setdefault(record.transactional_id, []).append(record)
                    if is_compacted:
                        self.compacted_ids.add(record.transactional_id)
                elif record is not None:
                    self.coordinator.pop(record.transactional_id, None)

    def compare(self) -> None:
        """The coordinator's history against the partitions."""
        for transactional_id, records in self.coordinator.items():
            if transactional_id in self.compacted_ids:
                continue
            before: TransactionRecord | None = None
            for record in records:
                state = before.state if before is not None else None
                if state not in FOLLOWS[record.state]:
                    self.problems.append(f"{transactional_id}: {record.state.name} follows {state}")
                if before is not None and record.state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
                    self._completed(before)
                before = record
        owned = {
            (str(partition), records[-1].producer_id)
            for records in self.coordinator.values()
            if records[-1].state not in ENDED
            for partition in records[-1].partitions
        }
        for (name, producer_id), offset in self.open.items():
            if (name, producer_id) not in owned:
                self.problems.append(f"{name}@{offset}: open transaction of producer {producer_id} belongs to nobody")

    def _completed(self, prepared: TransactionRecord) -> None:
        commit = prepared.state is S.PREPARE_COMMIT
        written = self.markers.get((prepared.producer_id, prepared.producer_epoch), {})
        what = f"{prepared.transactional_id} {prepared.producer_id}:{prepared.producer_epoch} {prepared.state.name}"
        for partition in prepared.partitions:
            outcomes = written.get(str(partition), set())
            if commit not in outcomes:
                self.problems.append(f"{what}: completed without its marker in {partition}")
            elif len(outcomes) > 1 and prepared.client_transaction_version >= 2:
                self.problems.append(f"{what}: {partition} holds markers of both outcomes")


def examine_files(files: Mapping[str, bytes], incomplete: Callable[[str], bool] = lambda _: False) -> Examination:
    """`files`: content by "directory/name" below the data directory. Of an `incomplete` directory (compacted, or cut at
    its start) only the order of offsets is checked, and who owns the open transactions."""
    examination = Examination()
    for directory in sorted({path.rpartition("/")[0] for path in files if path.endswith(".log")}):
        if directory.startswith("__cluster_metadata") or not directory.rpartition("-")[2].isdigit():
            continue
        log = list(_log(directory, files, examination, has_gaps=incomplete(directory)))
        if directory.startswith("__transaction_state-"):
            examination.coordinator_log(iter(log), is_compacted=incomplete(directory))
        elif not incomplete(directory):
            examination.partition(directory, iter(log))
    examination.compare()
    return examination


def _log(
    directory: str, files: Mapping[str, bytes], examination: Examination, *, has_gaps: bool
) -> Iterator[RecordBatch]:
    end_offset = 0
    for path in sorted(path for path in files if path.startswith(f"{directory}/") and path.endswith(".log")):
        position = 0
        for batch in batches(files[path]):
            if not batch.crc_is_valid:
                examination.problems.append(f"{path}: bad checksum at {position}")
                break
            if batch.base_offset != end_offset and not (has_gaps and batch.base_offset > end_offset):
                examination.problems.append(f"{path}: offset {batch.base_offset} where {end_offset} is due")
            end_offset = batch.end_offset
            position += batch.size_bytes
            yield batch
        if position != len(files[path]):
            examination.problems.append(f"{path}: {len(files[path]) - position} bytes are no batch")


def examine(data: pathlib.Path) -> list[str]:
    """The problems of a data directory on this machine (its server has stopped). What was cleaned may have gaps."""
    files = {str(path.relative_to(data)): path.read_bytes() for path in data.glob("*/*.log")}
    checkpoint = data / CLEANED_OFFSETS
    cleaned = offsets_from_bytes(checkpoint.read_bytes()) if checkpoint.exists() else {}
    return examine_files(files, {str(name) for name in cleaned}.__contains__).problems
