"""What a `World` holds of the logs: batches, records of the coordinators, checkpoints; as seen, or as durable.

Durable is what a start after a power cut would serve: the data files and what the journal puts back into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from evidence.syscalls.journal import DurableJournal, put_back
from evidence.syscalls.world import Node, World
from oncelog.errors import CorruptBatch, CorruptIndex
from oncelog.log.checkpoint_files import (
    PARTITION_METADATA,
    RECOVERY_POINTS,
    offsets_from_bytes,
    partition_metadata_from_bytes,
)
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
        self.journal = DurableJournal(world, directory)
        self._parsed: dict[tuple[int, int, bool], list[RecordBatch]] = {}
        self._survivors: dict[TopicPartition, tuple[object, list[RecordBatch]]] = {}
        self._topics: tuple[object, dict[str, bytes]] = (None, {})

    def path(self, *names: str) -> str:
        """Below the data directory."""
        return "/".join((self.directory, *names))

    def partitions(self, *, durable: bool = False) -> dict[TopicPartition, Node]:
        """Their directories, the metadata's too; not those that the journal alone would bring back."""
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

    def _logs_of(self, partition: TopicPartition, *, durable: bool) -> list[tuple[int, Node]]:
        """Base offsets and files in order; a cleaned segment that is announced counts, as a start would put it in place."""
        directory = self.partitions(durable=durable).get(partition)
        names = {} if directory is None else directory.durable_names if durable else directory.names
        return sorted(
            ((base_offset_of(name), node) for name, node in names.items() if name.endswith((".log", ".log.swap"))),
            key=lambda each: each[0],
        )

    def data_batches(self, partition: TopicPartition, *, durable: bool) -> Iterator[RecordBatch]:
        """Of a partition, in order, in its data files alone: what there is without the journal."""
        for _, node in self._logs_of(partition, durable=durable):
            yield from self.batches_of(node, durable=durable)

    def batches(self, partition: TopicPartition, *, durable: bool) -> Iterator[RecordBatch]:
        """Of a partition, in order. Durable ones: those that a start after a power cut would serve, the journal put back."""
        is_there = durable and partition.topic != METADATA and self.journal.found().is_there
        yield from self._surviving(partition) if is_there else self.data_batches(partition, durable=durable)

    def _surviving(self, partition: TopicPartition) -> list[RecordBatch]:
        found = self.journal.found()
        topic_id = self.topic_ids().get(partition.topic)
        if topic_id is None:
            return []
        pieces = found.pieces.get((topic_id, partition.partition), [])
        recovery_point = self.checkpoint(RECOVERY_POINTS).get(partition, 0)
        logs = self._logs_of(partition, durable=True) if self._is_of(partition, topic_id) else []
        files = tuple((base, node.id, node.durable_version) for base, node in logs)
        key = files, found.generation, pieces[:1], len(pieces), pieces[-1:], recovery_point
        known = self._survivors.get(partition)
        if known is None or known[0] != key:
            written = put_back({base: node.durable_data for base, node in logs}, pieces, recovery_point)
            segments = [(base, self.batches_of(node, durable=True)) for base, node in logs if base not in written]
            segments += [(base, whole_batches(data)) for base, data in written.items()]
            end_offset = max([recovery_point, *(piece.end_offset for piece in pieces)])
            known = self._survivors[partition] = key, _up_to(segments, recovery_point, end_offset)
        return known[1]

    def _is_of(self, partition: TopicPartition, topic_id: bytes) -> bool:
        """Whether a start takes the directory for this topic's."""
        data = self.world.durable_bytes(self.path(str(partition), PARTITION_METADATA))
        return not data or partition_metadata_from_bytes(data) == topic_id

    def topic_ids(self) -> dict[str, bytes]:
        """The topics that there durably are, by name."""
        logs = self._logs_of(TopicPartition(METADATA, 0), durable=True)
        key = tuple((base, node.id, node.durable_version) for base, node in logs)
        if self._topics[0] != key:
            names: dict[bytes, str] = {}
            for record in self.metadata(durable=True):
                if isinstance(record, cluster_metadata.TopicRecord):
                    names[record.topic_id] = record.name
                elif isinstance(record, cluster_metadata.RemoveTopicRecord):
                    names.pop(record.topic_id, None)
            self._topics = key, {name: topic_id for topic_id, name in names.items()}
        return self._topics[1]

    def topic(self, name: str, *, durable: bool) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        """Every batch of a topic."""
        found = [each for each in self.partitions(durable=durable) if each.topic == name]
        if durable and name != METADATA:  # the journal may know more of them
            topic_id = self.topic_ids().get(name)
            found += [TopicPartition(name, each[1]) for each in self.journal.found().pieces if each[0] == topic_id]
        for partition in dict.fromkeys(found):
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


def _up_to(segments: list[tuple[int, list[RecordBatch]]], recovery_point: int, end_offset: int) -> list[RecordBatch]:
    """As recovery would: the end of the journal cuts the log, and so does a gap above the recovery point."""
    found: list[RecordBatch] = []
    for _, batches_there in sorted(segments, key=lambda each: each[0]):
        for batch in batches_there:
            is_gap = bool(found) and batch.base_offset != found[-1].end_offset and batch.base_offset >= recovery_point
            if is_gap or batch.end_offset > end_offset:
                return found
            found.append(batch)
    return found


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
