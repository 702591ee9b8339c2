"""What a partition's files need beyond its log: names that are not durable yet, and the settings of logs and internal topics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from oncelog.broker.config.config import BrokerConfig
from oncelog.core.metadata.topic_configs import (
    AUDIT_TOPIC,
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicSettings,
)
from oncelog.errors import StorageError
from oncelog.log.checkpoint_files import metadata_path, partition_metadata_to_bytes
from oncelog.log.config import LogConfig
from oncelog.log.files import DirectoryNames, Files

INT64_MAX = 2**63 - 1


class UnsyncedFile:
    """A file that was written and closed, to be synced by its name."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def sync(self) -> None:
        """Open, sync, close; nothing where its topic was deleted meanwhile: others wait for the same call."""
        try:
            file = self._files.open(self._path, False)
        except StorageError:
            if self._files.exists(self._path):
                raise
            return
        try:
            file.sync()
        finally:
            file.close()


def begin_directory(files: Files, path: str, topic_id: bytes) -> UnsyncedFile:
    """Make a partition's directory, which says whose it is; what is to be synced, beside its name. Raises StorageError."""
    files.make_directory(path)
    file = files.open(metadata_path(path))
    file.write_at(0, partition_metadata_to_bytes(topic_id))
    file.close()
    return metadata_file(files, path)


def metadata_file(files: Files, path: str) -> UnsyncedFile:
    """What says whose the partition's directory `path` is, to be synced."""
    return UnsyncedFile(files, metadata_path(path))


def all_files(files: Files, path: str) -> list[UnsyncedFile | DirectoryNames]:
    """Everything in a partition's directory, to be synced: of one that cannot be opened nobody knows what is not. Raises
    StorageError."""
    return [*(UnsyncedFile(files, f"{path}/{name}") for name in files.list(path)), DirectoryNames(files, path)]


class NewNames:
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
        with lost_where_it_fails(lambda: self):
            self._names.sync()


@contextlib.contextmanager
def lost_where_it_fails(names: Callable[[], NewNames]) -> Iterator[None]:
    """Something that may sync the data directory, for whatever it has written there: where that fails, `names` of that moment may
    be lost with it."""
    try:
        yield
    except StorageError as error:
        names().failure = error
        raise


# A month, and no more than so many bytes, in segments that retention can give up.
AUDIT_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "2592000000",
    "retention.bytes": "268435456",
    "segment.bytes": "16777216",
}


# A coordinator's start reads its log whole. Only segments that are not written any more are cleaned, so one of Kafka's 100 MiB
# would keep half a million decisions of long ago for it; a roll for each mebibyte is one for some five thousand records.
COORDINATOR_SEGMENT_SIZE_BYTES_MAX = 1 << 20


def log_config(chosen: TopicSettings, *, was_cleaned: bool = False, is_cleaned_soon: bool = False) -> LogConfig:
    """What the log on disk needs of a topic's settings. `is_cleaned_soon`: a coordinator's, with the cleaner on."""
    lag_ms = chosen.max_compaction_lag_ms if chosen.is_compacted else INT64_MAX
    size_bytes = chosen.segment_size_bytes
    if is_cleaned_soon and chosen.is_compacted:
        size_bytes = min(size_bytes, COORDINATOR_SEGMENT_SIZE_BYTES_MAX)
    return LogConfig(
        segment_bytes=size_bytes,
        segment_ms=min(chosen.segment_ms, lag_ms),
        segment_jitter_ms=chosen.segment_jitter_ms,
        index_interval_bytes=chosen.index_interval_bytes,
        index_bytes_max=chosen.index_size_bytes_max,
        retention_ms=chosen.retention_ms,
        retention_bytes=chosen.retention_size_bytes,
        may_have_gaps=chosen.is_compacted or was_cleaned,
    )


def internal_topic_configs(name: str, config: BrokerConfig) -> dict[str, str]:
    """The configuration that a topic of the broker's is created with, as Kafka's coordinators choose it."""
    if name == AUDIT_TOPIC:
        return AUDIT_CONFIGS
    segment_bytes = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_segment_bytes,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_segment_bytes,
        SHARE_STATE_TOPIC: config.share_coordinator_state_topic_segment_bytes,
    }[name]
    configs = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    if name == SHARE_STATE_TOPIC:  # an update rests on those before it: nothing may be compacted away
        configs |= {"cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "producer"}
    elif name == TRANSACTION_STATE_TOPIC:
        configs |= {"compression.type": "uncompressed", "unclean.leader.election.enable": "false"}
        configs["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    else:
        configs["compression.type"] = "producer"
    return configs
