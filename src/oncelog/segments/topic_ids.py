"""Whose the directories of partitions are: what they say themselves, against the topics that the cluster's metadata knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import CorruptBatch, CorruptIndex, MalformedMessage, StorageError
from oncelog.log.checkpoint_files import is_nearly, metadata_path, partition_metadata_from_bytes
from oncelog.segments.source import Source
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import record_from_value
from oncelog.wire.record_batch import batches

METADATA_DIRECTORY = "__cluster_metadata-0"
FOLLOWERS_FOLDER = "processes"  # in the data directory of the process that has the metadata


def cluster_metadata(source: Source, data_directory: str) -> ClusterMetadata | None:
    """What oncelog's metadata in the directory says, or in that of the broker's first process; None where it cannot be read, or
    none is there."""
    parent, _, folder = data_directory.rpartition("/")[0].rpartition("/")
    found: ClusterMetadata | None = None
    try:
        for place in (data_directory, *([parent] if folder == FOLLOWERS_FOLDER else [])):
            directory = f"{place}/{METADATA_DIRECTORY}"
            for name in source.list(directory) if source.exists(directory) else ():
                if name.endswith(".log"):
                    found = found or ClusterMetadata()
                    for value in _values(source.read_whole(f"{directory}/{name}")):
                        found.apply(record_from_value(value))
    except (CorruptBatch, MalformedMessage, StorageError):
        return None
    return found


def topic_ids(source: Source, data_directory: str) -> dict[str, bytes]:
    """The topics of today by name; none where that cannot be read."""
    metadata = cluster_metadata(source, data_directory)
    return {} if metadata is None else {each.name: each.topic_id for each in metadata.topics.values()}


def _values(data: bytes) -> Iterator[bytes]:
    for batch in takewhile(lambda batch: batch.crc_is_valid, batches(data)):
        for record in batch.records():
            if record.value is not None:
                yield record.value


def _pass_over(path: str, error: StorageError) -> None:
    """Somebody else says that it cannot be read."""


def of_others(
    source: Source,
    data_directory: str,
    partitions: Iterable[TopicPartition],
    *,
    is_clean: bool,
    not_read: Callable[[str, StorageError], None] = _pass_over,
) -> dict[TopicPartition, str]:
    """Of these partitions those whose directory says that it is another topic's, so that a start takes them for lost; and what to
    say of it. `not_read` is told of those files that cannot be read.

    A topic that is not known was deleted: its directory may have been left by a crash, but not by a clean stop.
    """
    said = {where: owner for where in partitions if (owner := _owner(source, f"{data_directory}/{where}", not_read))}
    ids = topic_ids(source, data_directory) if said else {}
    names = {topic_id: name for name, topic_id in ids.items()}
    found: dict[TopicPartition, str] = {}
    for where, owner in said.items():
        topic_id = ids.get(where.topic)
        if topic_id is None or owner == topic_id or is_nearly(owner, topic_id):
            continue
        if is_clean or owner in names:
            whose = f"the topic {names[owner]}" if owner in names else "a topic that there is not"
            found[where] = f"its partition.metadata says that it is of {whose}"
    return found


def _owner(source: Source, path: str, not_read: Callable[[str, StorageError], None]) -> bytes:
    file = metadata_path(path)
    try:
        return partition_metadata_from_bytes(source.read_whole(file)) if source.exists(file) else b""
    except CorruptIndex:
        return b""
    except StorageError as error:
        not_read(file, error)
        return b""
