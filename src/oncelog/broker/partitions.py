"""All partitions on this node: opened at start, made on first use, closed at the end.

A partition that was never written has no directory and costs nothing. The three checkpoint files of the data directory
are written here, and a log start is in its checkpoint before any record below it is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from oncelog.broker.config import BrokerConfig
from oncelog.broker.flusher import Flusher
from oncelog.broker.local_partition import LocalPartition
from oncelog.core.cluster_metadata import ClusterMetadata, Topic
from oncelog.core.partition import Partition, PartitionConfig
from oncelog.core.topic_configs import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicSettings,
    settings,
)
from oncelog.errors import CorruptIndex, DamagedLog, StorageError
from oncelog.log.checkpoint_files import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    partition_metadata_to_bytes,
    read_offsets,
    write_offsets,
)
from oncelog.log.config import LogConfig
from oncelog.log.files import DirectoryNames, Files, Syncable
from oncelog.log.open_files import OpenFiles
from oncelog.log.recovery import recover
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")

DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"


class _Unsynced:
    """A file that was written and closed, to be synced by its name."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def sync(self) -> None:
        """Open, sync, close."""
        file = self._files.open(self._path, False)
        try:
            file.sync()
        finally:
            file.close()


class _NewNames:
    """The data directory's names, for partitions that were just made; one object, so that many syncs of it become one.

    A failed sync may have dropped any name that waited for it, and the next one would say all is well: so none of those
    partitions is ever committed, whichever of them asked. Partitions made later get another object.
    """

    def __init__(self, names: DirectoryNames) -> None:
        self._names = names
        self.failure: StorageError | None = None

    def sync(self) -> None:
        """Sync, unless that failed before."""
        if self.failure is not None:
            raise self.failure
        try:
            self._names.sync()
        except StorageError as error:
            self.failure = error
            raise


class Partitions:
    """The partitions of one node's data directory."""

    def __init__(
        self,
        files: OpenFiles,
        data_directory: str,
        metadata: ClusterMetadata,
        config: Callable[[], BrokerConfig],
        flusher: Flusher,
    ) -> None:
        self._files = files
        self._directory = data_directory
        self._metadata = metadata
        self._config = config
        self._flusher = flusher
        self._partitions: dict[TopicPartition, LocalPartition] = {}
        self._damaged: dict[TopicPartition, str] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._new_names = _NewNames(DirectoryNames(files.files, data_directory))

    def __iter__(self) -> Iterator[LocalPartition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    # finding

    def get(self, name: TopicPartition) -> LocalPartition | None:
        """The partition, made now if its topic has it; None where there is no such partition.

        Raises StorageError where it cannot be opened.
        """
        partition = self._partitions.get(name)
        if partition is not None:
            return partition
        topic = self._metadata.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < topic.partition_count:
            return None
        if name in self._damaged:
            raise StorageError(f"{name} is offline: {self._damaged[name]}")
        try:
            return self._open(name, topic, is_clean=False, created=self._create_directory(name, topic))
        except StorageError as error:
            # A name whose sync failed may be gone for good: trying again in this process would not bring it back.
            self._damaged[name] = str(error)
            raise

    def existing(self, name: TopicPartition) -> LocalPartition | None:
        """The partition if it has been written or read before."""
        return self._partitions.get(name)

    def is_offline(self, name: TopicPartition) -> bool:
        """Whether the partition cannot be served."""
        partition = self._partitions.get(name)
        return name in self._damaged or (partition is not None and partition.is_offline)

    # opening

    def open_all(self, *, is_clean: bool) -> None:
        """Open every partition that has a directory; damaged ones stay offline and say so. Raises StorageError."""
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        self._log_starts = self._read_checkpoint(LOG_START_OFFSETS)
        for directory in self._files.files.list(self._directory):
            path = f"{self._directory}/{directory}"
            if directory.endswith(DELETED_SUFFIX):
                self._files.files.remove_directory(path)
                continue
            topic_name, dash, index = directory.rpartition("-")
            if not dash or not index.isdigit() or topic_name == "__cluster_metadata":
                continue
            name = TopicPartition(topic_name, int(index))
            topic = self._metadata.topics.get(topic_name)
            if topic is None or name.partition >= topic.partition_count:
                # A deletion that a crash cut short, or metadata that was lost: a person may still want the data.
                _log.warning("%s belongs to no topic; moved aside as %s%s", directory, directory, STRAY_SUFFIX)
                self._files.files.rename(path, f"{path}{STRAY_SUFFIX}")
                continue
            try:
                self._open(name, topic, is_clean=is_clean)
            except DamagedLog as error:
                self._damaged[name] = str(error)
                _log.critical("partition %s is damaged and stays offline: %s", name, error)

    def _read_checkpoint(self, file_name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._files.files, self._directory, file_name)
        except CorruptIndex as error:
            # Without recovery points, damage in old data would be taken for a torn tail and cut.
            raise StorageError(
                f"{self._directory}/{file_name} is damaged ({error}): restore it; without it, damage in old data would be cut"
            ) from error

    def _create_directory(self, name: TopicPartition, topic: Topic) -> list[Syncable]:
        # Made durable together with the first batch, by the flusher: thousands of new partitions must not stop the loop.
        files, path = self._files.files, f"{self._directory}/{name}"
        files.make_directory(path)
        file = files.open(f"{path}/{PARTITION_METADATA}")
        file.write_at(0, partition_metadata_to_bytes(topic.topic_id))
        file.close()
        if self._new_names.failure is not None:
            self._new_names = _NewNames(DirectoryNames(files, self._directory))
        return [_Unsynced(files, f"{path}/{PARTITION_METADATA}"), self._new_names]

    def _open(
        self, name: TopicPartition, topic: Topic, *, is_clean: bool, created: Sequence[Syncable] = ()
    ) -> LocalPartition:
        config = self._config()
        chosen = self._settings(topic, config)
        rules = Partition(self._rules_config(config))
        log_start_offset = self._log_starts.get(name, 0)
        report = recover(
            self._files,
            f"{self._directory}/{name}",
            log_config(chosen),
            rules,
            recovery_point=self._recovery_points.get(name, 0),
            log_start_offset=log_start_offset,
            is_clean=is_clean,
            sync=not created,
        )
        for note in report.notes:
            _log.warning("%s: %s", name, note)
        if report.cut is not None:
            _log.warning("%s: %s", name, report.cut)
        log = report.log
        rules.recovered(log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
        partition = LocalPartition(name, topic.topic_id, log, rules, chosen, self._flusher, created=created)
        self._partitions[name] = partition
        return partition

    @staticmethod
    def _settings(topic: Topic, config: BrokerConfig) -> TopicSettings:
        return settings(topic.configs, config.topic_default)

    @staticmethod
    def _rules_config(config: BrokerConfig) -> PartitionConfig:
        return PartitionConfig(
            verification_enabled=config.transaction_partition_verification_enable,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            transaction_timeout_ms_max=config.transaction_max_timeout_ms,
            producer_count_max=config.oncelog_max_producer_ids_per_partition,
        )

    # changing

    def configs_changed(self) -> None:
        """Take over the configuration that is in force now."""
        config = self._config()
        rules_config = self._rules_config(config)
        for partition in self:
            topic = self._metadata.topics.get(partition.name.topic)
            if topic is not None:
                partition.settings = self._settings(topic, config)
                partition.rules.config = rules_config
                partition.log.config = log_config(partition.settings)

    def delete_records(self, partition: LocalPartition, log_start_offset: int) -> None:
        """Move a log's start up: first its checkpoint, then the files. Raises StorageError."""
        if log_start_offset > partition.rules.log_start_offset:
            self._log_starts[partition.name] = log_start_offset
            write_offsets(self._files.files, self._directory, LOG_START_OFFSETS, self._log_starts)
            partition.delete_records_to(log_start_offset)

    def apply_retention(self, now_ms: int) -> None:
        """Remove segments that retention no longer asks for, below each high watermark. Raises StorageError."""
        for partition in self:
            if not partition.settings.is_deleted_by_retention or partition.is_offline:
                continue
            past = partition.log.segments_past_retention(now_ms, partition.rules.last_stable_offset)
            if past:
                _log.info("%s: retention removes %d segments", partition.name, len(past))
                self.delete_records(partition, past[-1].end_offset)

    def remove(self, topic: Topic) -> None:
        """Forget a deleted topic's partitions and remove their files. Raises StorageError."""
        for name in topic.partitions():
            self._damaged.pop(name, None)
            self._log_starts.pop(name, None)
            self._recovery_points.pop(name, None)
            partition = self._partitions.pop(name, None)
            if partition is not None:
                partition.go_away()
                partition.log.close(clean=False)
            path = f"{self._directory}/{name}"
            if self._files.files.exists(path):
                gone = f"{self._directory}/{name}.{topic.topic_id.hex()}{DELETED_SUFFIX}"
                self._files.files.rename(path, gone)
                self._files.files.remove_directory(gone)
        self.checkpoint()  # a topic of the same name must not be judged by this one's recovery points

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were silent longer than producer.id.expiration.ms."""
        for partition in self:
            partition.rules.expire(now_ms)

    # checkpoints and the end

    def checkpoint(self) -> None:
        """Write the checkpoint files; then logs may drop what only an older recovery point needed. Raises StorageError."""
        stored = [(each, each.log.recovery_point) for each in self]
        self._write_checkpoint(RECOVERY_POINTS, lambda each: each.log.recovery_point, self._recovery_points)
        self._write_checkpoint(HIGH_WATERMARKS, lambda each: each.rules.high_watermark)
        self._write_checkpoint(
            LOG_START_OFFSETS,
            lambda each: each.rules.log_start_offset if each.rules.log_start_offset > 0 else None,
            self._log_starts,
        )
        for partition, recovery_point in stored:
            if not partition.is_offline:
                partition.log.recovery_point_stored(recovery_point)

    def _write_checkpoint(
        self,
        file_name: str,
        offset_of: Callable[[LocalPartition], int | None],
        at_start: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        # A damaged partition keeps what it had at the start: with its recovery point gone, the next start would cut it.
        offsets = {name: at_start[name] for name in self._damaged if name in at_start}
        offsets |= {each.name: offset for each in self if (offset := offset_of(each)) is not None}
        try:
            write_offsets(self._files.files, self._directory, file_name, offsets)
        except StorageError as error:
            self._new_names.failure = error  # it may have been the sync of the same directory
            raise

    def close(self) -> bool:
        """Close every log cleanly, with snapshots; whether all of them could be."""
        is_clean = not self._damaged
        for partition in self:
            try:
                partition.log.close(clean=not partition.is_offline)
            except StorageError as error:
                _log.critical("%s could not be closed cleanly: %s", partition.name, error)
                is_clean = False
            is_clean = is_clean and not partition.is_offline
        self.checkpoint()
        return is_clean


def log_config(chosen: TopicSettings) -> LogConfig:
    """What the log on disk needs of a topic's settings."""
    return LogConfig(
        segment_bytes=chosen.segment_size_bytes,
        segment_ms=chosen.segment_ms,
        index_interval_bytes=chosen.index_interval_bytes,
        index_bytes_max=chosen.index_size_bytes_max,
        retention_ms=chosen.retention_ms,
        retention_bytes=chosen.retention_size_bytes,
        may_have_gaps=chosen.is_compacted,
    )


def internal_topic_configs(name: str, config: BrokerConfig) -> dict[str, str]:
    """The configuration that an internal topic is created with (facts 3.3, 3.4)."""
    segment_bytes = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_segment_bytes,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_segment_bytes,
    }[name]
    configs = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    if name == TRANSACTION_STATE_TOPIC:
        configs |= {"compression.type": "uncompressed", "unclean.leader.election.enable": "false"}
        configs["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    else:
        configs["compression.type"] = "producer"
    return configs
