"""Whose partition each directory of the data directory is: what was deleted is removed, what is no topic's is moved aside."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Led
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.checkpoint_files import (
    is_nearly,
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
WAY_OUT = "restore it, or delete the topic (docs/runbook.md)"
BACK = ": it can be put back under the topic that is made anew"
NOBODY = TopicPartition("", -1)
_STRAY = re.compile(rf"(.+-\d+?)(?:\.\d+)?{STRAY_SUFFIX}")


class Found(NamedTuple):
    """The partitions that have a directory; directories of deleted topics; others that have a partition's name."""

    names: list[TopicPartition]
    unsaid: list[TopicPartition]  # of them, those that do not say whose they are, or nothing that can be read
    unreadable: dict[TopicPartition, str]  # no directory, or one that cannot be looked into; and why
    deleted: list[str]
    strays: list[str]
    others: dict[
        TopicPartition, bytes
    ]  # of the strays, those of a partition that there is; the topic that they say they are of

    def forget_past(
        self, known: dict[TopicPartition, int], metadata: ClusterMetadata, lost: Container[TopicPartition] = ()
    ) -> bool:
        """Drop what was known of a deleted topic's partitions, and not of who has their names now; whether there was any. The
        `lost` are of today."""
        # (Thousands of partitions: each is looked up in a set, at every start.)
        there = {*self.names, *self.unreadable}
        gone = {
            *self.strays,
            *(each.removesuffix(DELETED_DIRECTORY_SUFFIX).rpartition(".")[0] for each in self.deleted),
        }

        def is_past(name: TopicPartition) -> bool:
            # One that is missing without a trace was lost: whoever opens it must not begin anew in silence.
            if metadata.topic_of(name) is None:
                return True
            return name not in there and name not in lost and str(name) in gone

        past = [name for name in known if is_past(name)]
        for name in past:
            del known[name]
        return bool(past)

    def lost(self, metadata: ClusterMetadata, *, is_clean: bool) -> set[TopicPartition]:
        """The partitions of which the checkpoints speak, although the directory that has their name is not theirs.

        After a crash what they say may be of a deleted topic of that name, whose directory it is then: nobody knows its id any
        more. One that is of another topic of today never was; and a clean stop says nothing of deleted topics.
        """
        if not self.others:
            return set()
        topic_ids = {topic.topic_id for topic in metadata.topics.values()}
        return {name for name, owner in self.others.items() if is_clean or owner in topic_ids}


def partition_directories(files: Files, data_directory: str, metadata: ClusterMetadata) -> Found:
    """Look through the data directory. Raises StorageError."""
    bring_back(files, data_directory)
    found = Found([], [], {}, [], [], {})
    for directory in files.list(data_directory):
        if directory.endswith(DELETED_DIRECTORY_SUFFIX):
            found.deleted.append(directory)
        elif (name := _named(directory)) is not NOBODY:
            _judge(files, f"{data_directory}/{directory}", name, metadata, found)
    return found


def _judge(files: Files, path: str, name: TopicPartition, metadata: ClusterMetadata, found: Found) -> None:
    topic = metadata.topic_of(name)
    owner = None if topic is None else _owner(files, path)
    if topic is None:  # a deletion that a crash cut short, or metadata that was lost: a person may still want the data
        found.strays.append(str(name))
    elif not owner:
        try:
            files.list(path)
        except StorageError as error:
            found.unreadable[name] = str(error)
            return
        if owner is None:  # its name says whose it is, and nothing says otherwise
            _log.warning("%s cannot be read; written anew: it is %s's", metadata_path(path), name.topic)
        found.names.append(name)
        found.unsaid.append(name)
    elif owner == topic.topic_id:
        found.names.append(name)
    elif is_nearly(owner, topic.topic_id):
        _log.warning("%s is damaged: it says nearly the topic's id; written anew", metadata_path(path))
        found.names.append(name)
        found.unsaid.append(name)
    else:
        found.strays.append(str(name))
        found.others[name] = owner


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
    *,
    is_clean: bool = False,
    journaled: Callable[[], Container[tuple[bytes, int]]] = frozenset,
) -> Found:
    """What lies in the data directory, put in order. What checkpoint files (`known`, by name) say of deleted partitions is
    forgotten, and `store`d so, before it could be taken to be about others of their names. `journaled` has the topic ids and
    numbers of those that a journal has, which goes after this start: raises StorageError, with nothing changed, where it may be
    all that has the records of one whose directory cannot be used."""
    found = partition_directories(files, data_directory, metadata)
    lost = found.lost(metadata, is_clean=is_clean)
    if lost or found.unreadable:
        synced = {name for offsets in known.values() for name, offset in offsets.items() if offset > 0}
        keys, ids = journaled(), {each.name: each.topic_id for each in metadata.topics.values()}
        needed = [
            each for each in sorted((lost & synced) | {*found.unreadable}) if (ids[each.topic], each.partition) in keys
        ]
        _refuse(data_directory, found, needed)
    for file_name, offsets in known.items():
        if found.forget_past(offsets, metadata, lost):
            store(file_name, offsets)
    put_away(files, data_directory, found)
    for name in found.unsaid:
        content = partition_metadata_to_bytes(metadata.topics[name.topic].topic_id)
        files.replace_whole(metadata_path(f"{data_directory}/{name}"), content)
    return found


def _refuse(data_directory: str, found: Found, needed: list[TopicPartition]) -> None:
    for name in needed:
        path = f"{data_directory}/{name}"
        if name in found.unreadable:
            raise StorageError(f"{path} is no directory that can be read: {found.unreadable[name]}")
        raise StorageError(
            f"{path} is not of the topic {name.topic} by its partition.metadata, but {name} was synced before: put the right"
            f" directory there, or, if this one's records are {name}'s, remove {metadata_path(path)}"
        )


def missing(
    files: Files,
    data_directory: str,
    recovery_points: Mapping[TopicPartition, int],
    there: Container[TopicPartition],
    led: Led,
) -> dict[TopicPartition, str]:
    """What was written and synced, and has no directory any more; and what to say of it. Raises StorageError."""
    lost = {
        name: (offset, topic.topic_id)
        for name, offset in sorted(recovery_points.items())
        if offset > 0 and name not in there and (topic := led.topic_of(name)) is not None
    }
    strays = [each for each in files.list(data_directory) if each.endswith(STRAY_SUFFIX)] if lost else []
    owned = [(f"{data_directory}/{each}", *_stray_of(files, data_directory, each)) for each in strays]
    return {
        name: f"{data_directory}/{name}: is missing, but it was synced up to {offset}: {_told(name, topic_id, owned)}{WAY_OUT}"
        for name, (offset, topic_id) in lost.items()
    }


def _stray_of(files: Files, data_directory: str, directory: str) -> tuple[str, bytes | None]:
    """What a stray was called, and the id of the topic that it says it is of."""
    found = _STRAY.fullmatch(directory)
    return found[1] if found else directory, _owner(files, f"{data_directory}/{directory}")


def _told(name: TopicPartition, topic_id: bytes, strays: list[tuple[str, str, bytes | None]]) -> str:
    """What of the strays may be the partition's."""
    told = ""
    for path, was, owner in strays:
        if owner == topic_id and was.rpartition("-")[2] == str(name.partition):
            told += f"{path} says that it is of this topic: rename it to {name} if it is; "
        elif was == str(name):
            told += (
                f"{path} had its name, and says that it is of another topic (if it is {name} after all, remove its"
                " partition.metadata and rename it back); "
            )
    return told


def put_away(files: Files, data_directory: str, found: Found) -> None:
    """Remove what was deleted, and move strays aside, durably: a topic of that name may be made. Raises StorageError."""
    for directory in found.deleted:
        _remove(files, f"{data_directory}/{directory}")
    for directory in found.strays:
        move_aside(files, f"{data_directory}/{directory}")
    if found.strays:
        files.sync_directory(data_directory)


def _remove(files: Files, path: str) -> None:
    try:
        files.list(path)
    except StorageError as error:
        try:
            files.remove(path)  # a file that lay where a partition's directory belongs
        except StorageError:
            _log.warning("%s is of a deleted topic, and cannot be removed (%s): remove it", path, error)
        return
    files.remove_directory(path)


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
    back = BACK if directory.rpartition("-")[0] in INTERNAL_TOPICS else ""
    text = "%s belongs to no topic, or not to that of its name; moved aside as %s%s (docs/runbook.md, a directory NAME-stray)"
    _log.warning(text, path, moved, back)
    files.rename(path, moved)


def _named(directory: str) -> TopicPartition:
    topic_name, dash, index = directory.rpartition("-")
    if not dash or not (index.isascii() and index.isdigit()) or topic_name == "__cluster_metadata":
        return NOBODY
    return TopicPartition(topic_name, int(index))


def _owner(files: Files, path: str) -> bytes | None:
    """The id of the topic that the directory is of; empty where it was never said durably, None where that cannot be read."""
    try:
        content = files.read_whole(metadata_path(path)) if files.exists(metadata_path(path)) else b""
        return partition_metadata_from_bytes(content) if content else b""
    except (CorruptIndex, StorageError):
        return None
