"""What a `World` holds of the logs: batches, records of the coordinators, checkpoints; as seen, or as durable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from evidence.syscalls.world import Node, World
from oncelog.errors import CorruptBatch, CorruptIndex
from oncelog.log.checkpoint_files import offsets_from_bytes
from oncelog.log.producer_snapshot import snapshot_from_bytes
from oncelog.types import TopicPartition
from oncelog.wire.log_records import cluster_metadata, consumer_offsets, transaction_state
from oncelog.wire.record_batch import RecordBatch, batches

DIGITS = 20
PARTITION = re.compile(r"(.+)-(\d+)")
METADATA = "__cluster_metadata"
FINAL_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def base_offset_of(name: str) -> int:
    """-1 for files that are not named by an offset."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == DIGITS and digits.isdigit() else -1


def partition_of(directory: str) -> TopicPartition | None:
    """Whose directory it is, by its name alone."""
    found = PARTITION.fullmatch(directory)
    return TopicPartition(found[1], int(found[2])) if found else None


def whole_batches(data: bytes) -> list[RecordBatch]:
    """From the start, as far as they are whole."""
    found = []
    try:
        for batch in batches(data):
            if not batch.crc_is_valid:
                break
            found.append(batch)
    except CorruptBatch:
        pass
    return found


class Logs:
    """The data directory `directory` of a world."""

    def __init__(self, world: World, directory: str) -> None:
        self.world = world
        self.directory = directory
        self._parsed: dict[tuple[int, int, bool], list[RecordBatch]] = {}

    def path(self, *names: str) -> str:
        """Below the data directory."""
        return "/".join((self.directory, *names))

    def partitions(self, *, durable: bool = False) -> dict[TopicPartition, Node]:
        """Their directories, the metadata's too."""
        top = self.world.find(self.directory, durable=durable)
        names = {} if top is None else top.durable_names if durable else top.names
        found = {partition_of(name): node for name, node in names.items() if node.is_directory}
        return {name: node for name, node in found.items() if name is not None}

    def batches_of(self, node: Node, *, durable: bool) -> list[RecordBatch]:
        """Of a log file."""
        version = node.durable_version if durable else node.version
        key = (node.id, version, durable)
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = whole_batches(node.durable_data if durable else bytes(node.data))
        return found

    def batches(self, partition: TopicPartition, *, durable: bool) -> Iterator[RecordBatch]:
        """Of a partition, in order; a cleaned segment that is announced counts, as a start would put it in place."""
        directory = self.partitions(durable=durable).get(partition)
        if directory is None:
            return
        names = directory.durable_names if durable else directory.names
        logs = sorted((base_offset_of(name), name) for name in names if name.endswith((".log", ".log.swap")))
        for _, name in logs:
            yield from self.batches_of(names[name], durable=durable)

    def topic(self, name: str, *, durable: bool) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        """Every batch of a topic."""
        for partition in self.partitions(durable=durable):
            if partition.topic == name:
                for batch in self.batches(partition, durable=durable):
                    yield partition, batch

    def transactions(self, *, durable: bool) -> dict[str, transaction_state.TransactionRecord]:
        """The newest record of each transactional id."""
        found: dict[str, Any] = {}
        for _, batch in self.topic("__transaction_state", durable=durable):
            if not batch.is_control:
                for record in batch.records():
                    value = transaction_state.record_from_key_value(record.key, record.value)
                    if value is not None:
                        found[value.transactional_id] = value
        return {name: each for name, each in found.items() if isinstance(each, transaction_state.TransactionRecord)}

    def group_records(self, *, durable: bool) -> Iterator[Any]:
        """Every record of the groups, in order."""
        for _, batch in self.topic("__consumer_offsets", durable=durable):
            if not batch.is_control:
                for record in batch.records():
                    found = consumer_offsets.record_from_key_value(
                        record.key,
                        record.value,
                        producer_id=batch.producer_id,
                        producer_epoch=batch.producer_epoch,
                    )
                    if found is not None:
                        yield found

    def metadata(self, *, durable: bool) -> Iterator[Any]:
        """Every record of the cluster's metadata."""
        for _, batch in self.topic(METADATA, durable=durable):
            for record in batch.records():
                assert record.value is not None
                yield cluster_metadata.record_from_value(record.value)

    def checkpoint(self, name: str, *, durable: bool = True) -> dict[TopicPartition, int]:
        """Empty where there is none, or half of one."""
        node = self.world.find(self.path(name), durable=durable)
        try:
            return {} if node is None else offsets_from_bytes(node.durable_data if durable else bytes(node.data))
        except CorruptIndex:
            return {}


def is_whole_snapshot(data: bytes) -> bool:
    """Whether a start can use it."""
    try:
        snapshot_from_bytes(data)
    except CorruptIndex:
        return False
    return True


def end_offset_of(found: list[RecordBatch]) -> int:
    """The offset behind the last of them; -1 where there is none."""
    return found[-1].end_offset if found else -1
