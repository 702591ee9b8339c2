"""Reads the log files themselves: no index, no snapshot, none of the broker's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.errors import CorruptBatch
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, record_from_key_value
from oncelog.wire.record_batch import RecordBatch, batches
from tests.simulator.files import SimFiles

TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"


@dataclass(frozen=True)
class RawLogs:
    """Batches of each partition, and the coordinator's records, in the order of the log."""

    partitions: Mapping[TopicPartition, list[RecordBatch]]
    coordinator: list[TransactionRecord]
    corrupt: list[str]


def read_logs(disk: SimFiles, directory: str) -> RawLogs:
    """All of it, as a process sees the files now."""
    by_partition: dict[TopicPartition, list[RecordBatch]] = {}
    corrupt = []
    for path, content in disk.snapshot(directory).items():
        folder, _, name = path[len(directory) + 1 :].rpartition("/")
        topic, _, index = folder.rpartition("-")
        if not name.endswith(".log") or not index.isdigit() or topic == CLUSTER_METADATA:
            continue
        found = by_partition.setdefault(TopicPartition(topic, int(index)), [])
        try:
            for batch in batches(content):
                if batch.check_crc() is not None:
                    corrupt.append(f"{path}: offset {batch.base_offset} has a bad checksum")
                    break
                found.append(batch)
        except CorruptBatch as error:
            corrupt.append(f"{path}: {error}")
    coordinator = []
    for name, found in sorted(by_partition.items()):
        if name.topic == TRANSACTION_STATE:
            for batch in found:
                for stored in () if batch.is_control else batch.records():
                    record = record_from_key_value(stored.key, stored.value)
                    if isinstance(record, TransactionRecord):
                        coordinator.append(record)
    return RawLogs({n: f for n, f in by_partition.items() if n.topic != TRANSACTION_STATE}, coordinator, corrupt)
