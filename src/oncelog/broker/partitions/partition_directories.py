"""Whose partition each directory of the data directory is: what was deleted is removed, what is no topic's is moved aside."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Led
from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.checkpoint_files import (
    metadata_path,
    partition_metadata_from_bytes,
    partition_metadata_to_bytes,
)
from oncelog.log.failed_sync import bring_back
from oncelog.log.files import Files
from oncelog.log.leftovers import DELETED_DIRECTORY_SUFFIX, STRAY_SUFFIX
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")

FILE_NAME_BYTES_MAX = 255  # of file systems; a topic's name may have 249 of them
DAMAGED_BYTES_MAX = 2
WAY_OUT = "restore it, or delete the topic (docs/runbook.md)"
NOBODY = TopicPartition("", -1)


class Found(NamedTuple):
    """The partitions that have a directory; directories of deleted topics; others that have a partition's name."""

    names: list[TopicPartition]
    unsaid: list[TopicPartition]  # of them, those that do not say whose they are
    deleted: list[str]
    strays: list[str]

    def forget_past(self, known: dict[TopicPartition, int], metadata: ClusterMetadata) -> bool:
        """Drop what was known of a deleted topic's partitions, and not of who has their names now; whether there was any."""
        # (Thousands of partitions: each is looked up in a set, at every start.)
        there = set(self.names)
        gone = {
            *self.strays,
            *(each.removesuffix(DELETED_DIRECTORY_SUFFIX).rpartition(".")[0] for each in self.deleted),
        }

        def is_past(name: TopicPartition) -> bool:
            # One that is missing without a trace was lost: whoever opens it must not begin anew in silence.
            return metadata.topic_of(name) is None or (name not in there and str(name) in gone)

        past = [name for name in known if is_past(name)]
        for name in past:
            del known[name]
        return bool(past)


def partition_directories(files: Files, data_directory: str, metadata: ClusterMetadata) -> Found:
    """Look through the data directory. Raises StorageError."""
    bring_back(files, data_directory)
    found = Found([], [], [], [])
    for directory in files.list(data_directory):
        path = f"{data_directory}/{directory}"
        if directory.endswith(DELETED_DIRECTORY_SUFFIX):
            found.deleted.append(directory)
            continue
        name = _named(directory)
        if name is NOBODY:
            continue
        topic = metadata.topic_of(name)
        owner = None if topic is None else _owner(files, path)
        if topic is not None and owner and _is_damaged(owner, topic.topic_id):
            _log.warning("%s is damaged: it says nearly the topic's id; written anew", metadata_path(path))
            owner = b""
        if topic is None or owner not in (None, b"", topic.topic_id):
            # A deletion that a crash cut short, or metadata that was lost: a person may still want the data.
            found.strays.append(directory)
        else:
            found.names.append(name)
            if owner == b"":
                found.unsaid.append(name)
    return found


def owners(files: Files, data_directory: str) -> dict[str, bytes]:
    """The directories of partitions (not of deleted topics, not those that were moved aside) that say of which topic they are."""
    paths = [f"{data_directory}/{each}" for each in files.list(data_directory) if _named(each) is not NOBODY]
    return {path: owner for path in paths if (owner := _owner(files, path))}


def settle(
    files: Files,
    data_directory: str,
    metadata: ClusterMetadata,
    known: Mapping[str, dict[TopicPartition, int]],
    store: Callable[[str, dict[TopicPartition, int]], None],
) -> list[TopicPartition]:
    """The partitions that have a directory. What checkpoint files (`known`, by name) say of deleted ones is forgotten, and
    `store`d so, before it could be taken to be about others of their names. Raises StorageError."""
    found = partition_directories(files, data_directory, metadata)
    for file_name, offsets in known.items():
        if found.forget_past(offsets, metadata):
            store(file_name, offsets)
    put_away(files, data_directory, found)
    for name in found.unsaid:
        content = partition_metadata_to_bytes(metadata.topics[name.topic].topic_id)
        files.replace_whole(metadata_path(f"{data_directory}/{name}"), content)
    return found.names


def missing(
    data_directory: str, recovery_points: Mapping[TopicPartition, int], there: Container[TopicPartition], led: Led
) -> dict[TopicPartition, str]:
    """What was written and synced, and has no directory any more; and what to say of it."""
    return {
        name: f"{data_directory}/{name}: is missing, but it was synced up to {offset}: {WAY_OUT}"
        for name, offset in sorted(recovery_points.items())
        if offset > 0 and name not in there and led.topic_of(name) is not None
    }


def put_away(files: Files, data_directory: str, found: Found) -> None:
    """Remove what was deleted, and move strays aside, durably: a topic of that name may be made. Raises StorageError."""
    for directory in found.deleted:
        files.remove_directory(f"{data_directory}/{directory}")
    for directory in found.strays:
        move_aside(files, f"{data_directory}/{directory}")
    if found.strays:
        files.sync_directory(data_directory)


def deleted_directory(name: TopicPartition, topic_id: str) -> str:
    """What a partition's directory is called from its deletion until its files are removed."""
    return _renamed(str(name), f".{topic_id}{DELETED_DIRECTORY_SUFFIX}")


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
    _log.warning("%s belongs to no topic; moved aside as %s (docs/runbook.md)", path, moved)
    files.rename(path, moved)


def _named(directory: str) -> TopicPartition:
    topic_name, dash, index = directory.rpartition("-")
    if not dash or not (index.isascii() and index.isdigit()) or topic_name == "__cluster_metadata":
        return NOBODY
    return TopicPartition(topic_name, int(index))


def _is_damaged(owner: bytes, topic_id: bytes) -> bool:
    """Whether an id is the topic's but for a byte or two (a character of the file): ids are drawn, no two are so near."""
    return (
        owner != topic_id and sum(one != other for one, other in zip(owner, topic_id, strict=True)) <= DAMAGED_BYTES_MAX
    )


def _owner(files: Files, path: str) -> bytes | None:
    """The id of the topic that the directory is of; empty where it was never said durably, None where that cannot be read."""
    try:
        content = files.read_whole(metadata_path(path)) if files.exists(metadata_path(path)) else b""
        return partition_metadata_from_bytes(content) if content else b""
    except (CorruptIndex, StorageError):
        return None
