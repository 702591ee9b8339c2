"""The small files around the logs: offset checkpoints, partition.metadata, the clean shutdown marker.

`recovery-point-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks), `log-start-offset-checkpoint` and
`cleaner-offset-checkpoint` lie in the data directory and are text: "0", the number of entries, then "topic partition
offset" lines. Two are ours, of damaged logs that a start could not open: `offline-end-offset-checkpoint` says up to where they
were synced, and `offline-cut-offset-checkpoint` where they are to be cut, of those that are.
"""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64decode
from collections.abc import Mapping

from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.files import Files
from oncelog.types import TopicPartition
from oncelog.wire.uuids import uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
OFFLINE_ENDS = "offline-end-offset-checkpoint"
OFFLINE_CUTS = "offline-cut-offset-checkpoint"
CLUSTER_METADATA = TopicPartition("__cluster_metadata", 0)  # noted among the recovery points, though it needs none
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_BYTES = b'{"version":0,"brokerEpoch":-1}'
PARTITION_METADATA = "partition.metadata"
DAMAGED_BYTES_MAX = 2


def offsets_to_bytes(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint's content."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode("ascii")


def offsets_from_bytes(data: bytes) -> dict[TopicPartition, int]:
    """Read an offset checkpoint. Raises CorruptIndex."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        fields = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in fields}
    except ValueError as error:
        raise CorruptIndex(f"offset checkpoint: {unreadable(data)}") from error
    if version != "0" or count != str(len(lines)) or len(offsets) != len(lines):
        raise CorruptIndex(f"offset checkpoint: version {version}, {len(offsets)} entries instead of {count}")
    return offsets


def unreadable(data: bytes) -> str:
    """What a small text file holds that cannot be read, for a person."""
    return f"it begins with {data[:40]!r}" if data else "it is empty"


def read_offsets(files: Files, data_directory: str, name: str) -> dict[TopicPartition, int]:
    """The offset checkpoint `name`; empty where there is none yet. Raises CorruptIndex."""
    path = f"{data_directory}/{name}"
    return offsets_from_bytes(files.read_whole(path)) if files.exists(path) else {}


def write_offsets(files: Files, data_directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Durably replace the offset checkpoint `name`."""
    files.replace_whole(f"{data_directory}/{name}", offsets_to_bytes(offsets))


def metadata_path(directory: str) -> str:
    """The file that says whose a partition's directory is."""
    return f"{directory}/{PARTITION_METADATA}"


def partition_metadata_to_bytes(topic_id: bytes) -> bytes:
    """`partition.metadata`: the topic id in Kafka's URL-safe base64 without padding."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def partition_metadata_from_bytes(data: bytes) -> bytes:
    """The 16 bytes of the topic id. Raises CorruptIndex."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
        topic_id = urlsafe_b64decode(fields["topic_id"] + "==")
    except (ValueError, KeyError) as error:
        raise CorruptIndex(f"{PARTITION_METADATA}: {unreadable(data)}") from error
    if fields.get("version") != "0" or len(topic_id) != 16:
        raise CorruptIndex(f"{PARTITION_METADATA}: {data!r}")
    return topic_id


def is_nearly(owner: bytes, topic_id: bytes) -> bool:
    """Whether an id is a topic's but for a byte or two (a character of the file): ids are drawn, no two are so near."""
    return (
        owner != topic_id and sum(one != other for one, other in zip(owner, topic_id, strict=True)) <= DAMAGED_BYTES_MAX
    )


def create_partition_directory(files: Files, data_directory: str, partition: TopicPartition, topic_id: bytes) -> str:
    """Durably make the directory of a partition with its `partition.metadata`; returns its path. Twice is once."""
    directory = f"{data_directory}/{partition}"
    files.make_directory(directory)
    files.replace_whole(metadata_path(directory), partition_metadata_to_bytes(topic_id))
    files.sync_directory(data_directory)
    return directory


def write_clean_shutdown(files: Files, data_directory: str) -> None:
    """Say that every log below was closed cleanly. Kafka's form; its broker epoch is -1, as nothing registers here."""
    files.replace_whole(f"{data_directory}/{CLEAN_SHUTDOWN}", CLEAN_SHUTDOWN_BYTES)


def take_clean_shutdown(files: Files, data_directory: str) -> bool:
    """True when the last shutdown was clean. The marker is durably gone before this returns. Raises StorageError."""
    path = f"{data_directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return False
    files.remove(path)
    try:
        files.sync_directory(data_directory)
    except StorageError:
        # It may come back with the next power cut, and no later sync would prevent that. Nothing was changed yet, so it still
        # tells the truth: the next start finds it, and removes it anew.
        with contextlib.suppress(StorageError):
            marker = files.open(path)
            marker.write_at(0, CLEAN_SHUTDOWN_BYTES)
            marker.close()
        raise
    return True
