"""Reads the log files themselves: no index, no snapshot, none of the broker's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evidence.simulator.archive import Archive
from evidence.world.files import SimFiles
from oncelog.errors import CorruptBatch
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, record_from_key_value
from oncelog.wire.record_batch import RecordBatch, batches

TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"
_check_crc = RecordBatch.check_crc  # as it is, whatever a planted defect puts in its place for the broker


@dataclass(frozen=True)
class RawLogs:
    """Batches of each partition, and the coordinator's records, in the order of the log.

    `active` is where each partition's last segment begins; `ends` where its log ends.
    """

    partitions: Mapping[TopicPartition, list[RecordBatch]]
    coordinator: list[TransactionRecord]
    corrupt: list[str]
    active: Mapping[TopicPartition, int]

    def end_offset(self, name: TopicPartition) -> int:
        """Where the log of a partition ends."""
        found = self.partitions[name]
        return max(found[-1].end_offset if found else 0, self.active[name])


def read_logs(disk: SimFiles, directory: str) -> RawLogs:
    """All of it, as a process sees the files now."""
    by_partition: dict[TopicPartition, list[RecordBatch]] = {}
    active: dict[TopicPartition, int] = {}
    corrupt = []
    for path, content in disk.snapshot(directory).items():
        folder, _, name = path[len(directory) + 1 :].rpartition("/")
        topic, _, index = folder.rpartition("-")
        if not name.endswith(".log") or not index.isdigit() or topic == CLUSTER_METADATA:
            continue
        partition = TopicPartition(topic, int(index))
        active[partition] = int(name.removesuffix(".log"))
        found = by_partition.setdefault(partition, [])
        try:
            for batch in batches(content):
                if _check_crc(batch) is not None:
                    corrupt.append(f"{path}: offset {batch.base_offset} has a bad checksum")
                    break
                found.append(batch)
        except CorruptBatch as error:
            corrupt.append(f"{path}: {error}")
    return RawLogs(by_partition, _coordinator(by_partition), corrupt, active)


def uncleaned(logs: RawLogs, archive: Archive) -> RawLogs:
    """The same logs as they would be if nothing had been cleaned (`checkers/cleaning.py` compares the two)."""
    whole = {name: archive.batches(name, logs.end_offset(name)) for name in logs.partitions}
    return RawLogs(whole, _coordinator(whole), logs.corrupt, logs.active)


def data_partitions(logs: RawLogs) -> Iterable[tuple[TopicPartition, list[RecordBatch]]]:
    """All but the coordinator's own."""
    return ((name, found) for name, found in sorted(logs.partitions.items()) if name.topic != TRANSACTION_STATE)


def _coordinator(by_partition: Mapping[TopicPartition, list[RecordBatch]]) -> list[TransactionRecord]:
    coordinator = []
    for name, found in sorted(by_partition.items()):
        if name.topic == TRANSACTION_STATE:
            for batch in found:
                for stored in () if batch.is_control else batch.records():
                    record = record_from_key_value(stored.key, stored.value)
                    if isinstance(record, TransactionRecord):
                        coordinator.append(record)
    return coordinator
