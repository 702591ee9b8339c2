"""Sharing a data directory's partitions out to another number of processes, between a clean stop and the next start.

`oncelog serve --processes N` gives each partition one leader for good, and its log lies with that process. So with another N logs
move: a directory is renamed, and its lines in the checkpoint files go with it. Every step may be the last before a crash: a file
says which move is under way, nothing is taken away before it is elsewhere, and a move that is begun again does the same.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping

from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.partitions.partition_directories import partition_directories, put_away
from oncelog.broker.startup import (
    META_PROPERTIES,
    PROCESSES,
    has_begun,
    meta_properties,
    note_process,
    process_count_of,
    refuse_lost_process,
)
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.processes.process_plan import FOLLOWERS_FOLDER, begun_mark, directory_of, move_under_way
from oncelog.errors import CorruptBatch, CorruptIndex, DamagedLog, MalformedMessage, StorageError
from oncelog.host.host import Host
from oncelog.host.tasks import Tasks
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
)
from oncelog.log.open_files import OpenFiles
from oncelog.log.producer_windows import PRODUCER_WINDOWS, SnapshotKey, Windows, windows_from_bytes, windows_to_bytes
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.processes")

CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANED_OFFSETS)


def share_out(host: Host, data_directory: str, count: int | None) -> int:
    """Have the directory shared out to `count` processes (None: to as many as it is); to how many it is then. A move that a crash
    cut short is finished. Raises ConfigInvalid (it was not stopped in good order, a process's directory is gone), StorageError (a
    broker runs there, a damaged checkpoint), DamagedLog."""
    files, under_way = host.files, move_under_way(data_directory)
    try:
        if files.exists(under_way):
            told = files.read_whole(under_way).split()
            if len(told) != 2 or not all(each.isdigit() for each in told):
                raise StorageError(
                    f"{under_way} is damaged: it says from how many processes to how many, as in `2 3`: restore it"
                )
            before, after = map(int, told)
            _Move(host, data_directory, before, after).go_on()
        path = f"{data_directory}/{META_PROPERTIES}"
        if not files.exists(path):
            return count or 1
        before = process_count_of(meta_properties(files, path), path)
        for index in range(1, before):
            refuse_lost_process(files, data_directory, index)
        if count not in (None, before):
            _Move(host, data_directory, before, count).begin()
        return count or before
    except CorruptIndex as error:
        raise StorageError(f"{data_directory}: {error}: restore it; without it logs would lose their starts") from error


class _Move:
    """From `before` processes to `after`."""

    def __init__(self, host: Host, data_directory: str, before: int, after: int) -> None:
        self._host, self._files = host, host.files
        self._data_directory = data_directory
        self._before, self._after = before, after
        self._directories = {index: directory_of(data_directory, index) for index in range(max(before, after))}
        self._folder = f"{data_directory}/{FOLLOWERS_FOLDER}"
        own = meta_properties(self._files, f"{data_directory}/{META_PROPERTIES}")
        told = own.get("node.id", "1")
        if not (told.isascii() and told.isdigit()):
            raise ConfigInvalid(f"{data_directory}/{META_PROPERTIES} is damaged: node.id is no number: restore it")
        self._cluster_id, self._node_id = own.get("cluster.id", ""), int(told)

    def begin(self) -> int:
        """What was stopped in good order is moved."""
        unclean = [
            path
            for index, path in self._directories.items()
            if index < self._before
            and has_begun(self._files, path)  # else it was not lost either
            and not self._files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        ]
        if unclean:
            raise ConfigInvalid(
                f"{unclean[0]}: it was not stopped in good order: start it once more with --processes {self._before}, "
                f"stop it, and then start it with --processes {self._after}"
            )
        if not self._files.exists(self._folder):
            self._files.make_directory(self._folder)
            self._files.sync_directory(self._data_directory)
        self._files.replace_whole(
            move_under_way(self._data_directory), f"{self._before} {self._after}\n".encode("ascii")
        )
        return self.go_on()

    def go_on(self) -> int:
        """From wherever it is."""
        for index in range(1, min(self._before, self._after)):  # the others may be gone already
            refuse_lost_process(self._files, self._data_directory, index)
        for index, path in self._directories.items():
            if index and not self._files.exists(path) and index < self._after:
                self._files.make_directory(path)
        self._files.sync_directory(self._folder)
        there = {index: path for index, path in self._directories.items() if self._files.exists(path)}
        with contextlib.ExitStack() as held:
            for path in there.values():
                held.callback(self._files.lock(f"{path}/.lock").close)
            return self._moved(there)

    def _moved(self, there: Mapping[int, str]) -> int:
        metadata = self._metadata()
        leadership = Leadership(0, tuple(range(self._after)))
        self._write_checkpoints(there, metadata, None)
        moved = 0
        for index, path in there.items():
            found = partition_directories(self._files, path, metadata)
            for name, reason in found.unreadable.items():
                raise StorageError(
                    f"{path}/{name} is no directory that can be read ({reason}): give it back its rights or restore it, and"
                    f" start again with --processes {self._after}"
                )
            put_away(self._files, path, found)
            for name in found.names:
                target = leadership.leader_of(metadata.topics[name.topic], name.partition)
                if target != index:
                    self._files.rename(f"{path}/{name}", f"{there[target]}/{name}")
                    moved += 1
        for path in there.values():
            self._files.sync_directory(path)
        self._write_checkpoints(there, metadata, leadership)
        for index, path in there.items():
            if index < self._after:
                self._write_properties(index, path)
            else:
                self._remove(path)
        for index in self._directories:
            if 0 < index < self._after:
                note_process(self._files, self._data_directory, index, self._cluster_id)
            elif self._files.exists(mark := begun_mark(self._data_directory, index)):
                self._files.remove(mark)
        self._files.sync_directory(self._data_directory)
        self._files.remove(move_under_way(self._data_directory))
        self._files.sync_directory(self._folder)
        _log.info("%d partitions moved: shared out to %d processes, they were %d", moved, self._after, self._before)
        return moved

    def _metadata(self) -> ClusterMetadata:
        host, files = self._host, OpenFiles(self._files)
        store = MetadataStore(files, self._data_directory, host.syncer, host.clock, Tasks())
        try:
            store.open(is_clean=True)
        except (MalformedMessage, CorruptBatch) as error:
            raise DamagedLog(f"cluster metadata: {error}") from error
        store.close()
        files.close()
        return store.metadata

    def _write_checkpoints(self, there: Mapping[int, str], metadata: ClusterMetadata, only: Leadership | None) -> None:
        """In every directory the lines of all; with `only` in each those of what lies there."""
        names = {topic.topic_id: topic.name for topic in metadata.topics.values()}

        def is_at(name: TopicPartition, index: int) -> bool:
            topic = metadata.topic_of(name)
            return topic is not None and (only is None or only.leader_of(topic, name.partition) == index)

        for file in CHECKPOINTS:
            offsets: dict[TopicPartition, int] = {}
            for path in there.values():
                offsets |= read_offsets(self._files, path, file)
            for index, path in there.items():
                write_offsets(self._files, path, file, {each: at for each, at in offsets.items() if is_at(each, index)})
        windows: dict[SnapshotKey, Windows] = {}
        for path in there.values():
            if self._files.exists(f"{path}/{PRODUCER_WINDOWS}"):
                windows |= windows_from_bytes(self._files.read_whole(f"{path}/{PRODUCER_WINDOWS}"))
        for index, path in there.items():
            own = {
                key: each
                for key, each in windows.items()
                if key.topic_id in names and is_at(TopicPartition(names[key.topic_id], key.partition), index)
            }
            self._files.replace_whole(f"{path}/{PRODUCER_WINDOWS}", windows_to_bytes(own))

    def _write_properties(self, index: int, path: str) -> None:
        text = f"version=1\ncluster.id={self._cluster_id}\nnode.id={self._node_id + index}\n"
        if self._after > 1:
            text += f"{PROCESSES}={self._after}\n"
        write_clean_shutdown(self._files, path)
        self._files.replace_whole(f"{path}/{META_PROPERTIES}", text.encode("ascii"))

    def _remove(self, path: str) -> None:
        """A process's directory that has no partitions any more; what a person may still want stays."""
        left = [name for name in self._files.list(path) if "-" in name and name not in (*CHECKPOINTS, PRODUCER_WINDOWS)]
        if left:
            _log.warning("%s has no partitions any more, and still %s: look at them, and remove it", path, left[0])
            self._files.remove(f"{path}/{META_PROPERTIES}")
        else:
            self._files.remove_directory(path)
        self._files.sync_directory(self._folder)
