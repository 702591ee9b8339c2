"""Whose partition each directory of the data directory is: what was deleted is removed, what is no topic's is moved aside."""

from __future__ import annotations

import itertools
import logging
from typing import NamedTuple

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.checkpoint_files import PARTITION_METADATA, partition_metadata_from_bytes
from oncelog.log.failed_sync import bring_back
from oncelog.log.files import Files
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")

DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FILE_NAME_BYTES_MAX = 255  # of file systems; a topic's name may have 249 of them
NOBODY = TopicPartition("", -1)


class Found(NamedTuple):
    """The partitions that have a directory; whether others were moved aside, whose new names are not durable yet."""

    names: list[TopicPartition]
    has_strays: bool


def partition_directories(files: Files, data_directory: str, metadata: ClusterMetadata) -> Found:
    """Look through the data directory. Raises StorageError."""
    bring_back(files, data_directory)
    found, has_strays = [], False
    for directory in files.list(data_directory):
        path = f"{data_directory}/{directory}"
        if directory.endswith(DELETED_SUFFIX):
            files.remove_directory(path)
            continue
        name = _named(directory)
        if name is not NOBODY and _is_of_its_topic(files, path, name, metadata):
            found.append(name)
        elif name is not NOBODY:
            # A deletion that a crash cut short, or metadata that was lost: a person may still want the data.
            move_aside(files, path)
            has_strays = True
    return Found(found, has_strays)


def deleted_directory(name: TopicPartition, topic_id: str) -> str:
    """What a partition's directory is called from its deletion until its files are removed."""
    return _renamed(str(name), f".{topic_id}{DELETED_SUFFIX}")


def _renamed(directory: str, suffix: str) -> str:
    """With the suffix, within what a file system takes: the topic's name is cut, as Kafka does."""
    topic_name, _, index = directory.rpartition("-")
    end = f"-{index}{suffix}"
    return topic_name[: FILE_NAME_BYTES_MAX - len(end)] + end


def move_aside(files: Files, path: str) -> None:
    """Give a directory that belongs to no topic a name under which nobody looks for it."""
    parent, _, directory = path.rpartition("/")
    suffixes = (f"{f'.{count}' if count else ''}{STRAY_SUFFIX}" for count in itertools.count())
    free = (f"{parent}/{_renamed(directory, each)}" for each in suffixes)
    moved = next(each for each in free if not files.exists(each))
    _log.warning("%s belongs to no topic; moved aside as %s", path, moved)
    files.rename(path, moved)


def _named(directory: str) -> TopicPartition:
    topic_name, dash, index = directory.rpartition("-")
    if not dash or not (index.isascii() and index.isdigit()) or topic_name == "__cluster_metadata":
        return NOBODY
    return TopicPartition(topic_name, int(index))


def _is_of_its_topic(files: Files, path: str, name: TopicPartition, metadata: ClusterMetadata) -> bool:
    """False where it names another topic's id: one of the same name that was deleted."""
    topic = metadata.topics.get(name.topic)
    if topic is None or name.partition >= topic.partition_count:
        return False
    try:
        return partition_metadata_from_bytes(files.read_whole(f"{path}/{PARTITION_METADATA}")) == topic.topic_id
    except (CorruptIndex, StorageError):
        return True  # it is written with the directory, and synced with the first batch: nothing was acknowledged yet
