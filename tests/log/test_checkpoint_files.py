"""The small text files, byte for byte as Apache Kafka writes them."""

from __future__ import annotations

import pathlib

import pytest
from evidence.world.files import Fault, Keep, SimFiles

from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_BYTES,
    RECOVERY_POINTS,
    create_partition_directory,
    offsets_from_bytes,
    offsets_to_bytes,
    partition_metadata_from_bytes,
    partition_metadata_to_bytes,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from oncelog.types import TopicPartition

KAFKA = pathlib.Path(__file__).parent.parent / "data" / "kafka_log"


def test_offset_checkpoints() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a.x", 10): 0}
    assert offsets_to_bytes(offsets) == b"0\n2\na.x 10 0\nb 1 7\n"
    assert offsets_from_bytes(offsets_to_bytes(offsets)) == offsets
    assert offsets_to_bytes({}) == b"0\n0\n"


@pytest.mark.parametrize(
    "data", [b"", b"0", b"1\n0\n", b"0\n1\n", b"0\n1\na 1\n", b"0\n1\na x 1\n", b"0\n2\na 1 1\na 1 1\n", b"\xff\n0\n"]
)
def test_a_broken_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        offsets_from_bytes(data)


def test_a_broken_file_is_told_in_words() -> None:
    """On a full disk it is empty; `not enough values to unpack` was no help."""
    with pytest.raises(CorruptIndex, match=r"^offset checkpoint: it is empty$"):
        offsets_from_bytes(b"")
    with pytest.raises(CorruptIndex, match=r"^partition.metadata: it begins with b'version: 0'$"):
        partition_metadata_from_bytes(b"version: 0")


def test_apache_kafkas_partition_metadata() -> None:
    data = (KAFKA / "partition.metadata").read_bytes()
    topic_id = partition_metadata_from_bytes(data)
    assert partition_metadata_to_bytes(topic_id) == data


@pytest.mark.parametrize(
    "data",
    [b"", b"version: 1\ntopic_id: frBrwKpBTZSICyJXDzk4_A", b"version: 0\ntopic_id: AAAA", b"version: 0", b"\xff"],
)
def test_broken_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        partition_metadata_from_bytes(data)


def test_all_of_them_are_durable_when_the_call_returns() -> None:
    files = SimFiles()
    files.make_directory("d")
    files.sync_directory("")
    partition = TopicPartition("t", 3)
    assert read_offsets(files, "d", RECOVERY_POINTS) == {}
    assert create_partition_directory(files, "d", partition, b"i" * 16) == "d/t-3"
    write_offsets(files, "d", RECOVERY_POINTS, {partition: 9})
    write_clean_shutdown(files, "d")
    files.crash(Keep.NONE)
    assert files.list("d/t-3") == ["partition.metadata"]
    assert read_offsets(files, "d", RECOVERY_POINTS) == {partition: 9}
    assert take_clean_shutdown(files, "d")
    files.crash(Keep.NONE)
    assert not take_clean_shutdown(files, "d"), "the marker must not survive the start it was for"


def test_a_clean_end_that_could_not_be_taken_is_there_for_the_next_start() -> None:
    """Else it came back with a power cut, and the records of a start that had not found it would count as closed cleanly."""
    came_back = 0
    for seed in range(20):
        files = SimFiles(seed)
        files.make_directory("d")
        files.sync_directory("")
        write_clean_shutdown(files, "d")
        files.fail_at(1, Fault.SYNC_ERROR)
        with pytest.raises(StorageError):
            take_clean_shutdown(files, "d")
        came_back += files.read_synced(f"d/{CLEAN_SHUTDOWN}") is not None
        assert files.read_whole(f"d/{CLEAN_SHUTDOWN}") == CLEAN_SHUTDOWN_BYTES
        assert take_clean_shutdown(files, "d")
        files.crash(Keep.NONE)
        assert not take_clean_shutdown(files, "d")
    assert came_back > 5
