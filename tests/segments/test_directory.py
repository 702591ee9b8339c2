"""What lies in a directory, and what its checkpoints know that does not lie there."""

from __future__ import annotations

import pathlib

import pytest

from oncelog.host.read_only_files import ReadOnlyFiles
from oncelog.log.checkpoint_files import HIGH_WATERMARKS, OFFLINE_ENDS, RECOVERY_POINTS, offsets_to_bytes
from oncelog.segments.directory import list_directory
from oncelog.types import TopicPartition

HERE, EMPTIED, GONE, NEVER = (TopicPartition("t", index) for index in range(4))


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    for where in (HERE, EMPTIED):
        (tmp_path / str(where)).mkdir()
    (tmp_path / str(HERE) / f"{0:020d}.log").write_bytes(b"")
    (tmp_path / RECOVERY_POINTS).write_bytes(offsets_to_bytes({HERE: 4, EMPTIED: 5, GONE: 6, NEVER: 0}))
    (tmp_path / HIGH_WATERMARKS).write_bytes(offsets_to_bytes({HERE: 4, GONE: 7, NEVER: 0}))
    return tmp_path


def test_a_damaged_log_is_synced_further_than_its_indexes(data: pathlib.Path) -> None:
    (data / OFFLINE_ENDS).write_bytes(offsets_to_bytes({HERE: 9}))
    assert [each.recovery_point for each in list_directory(ReadOnlyFiles(), str(data)).partitions] == [9]


def test_partitions_that_were_there_at_a_clean_stop(data: pathlib.Path) -> None:
    assert list_directory(ReadOnlyFiles(), str(data)).lost == {}, "after a kill a deleted topic may still be named"
    (data / ".kafka_cleanshutdown").write_text("{}")
    assert list_directory(ReadOnlyFiles(), str(data)).lost == {EMPTIED: 5, GONE: 7}
    assert list_directory(ReadOnlyFiles(), str(data), is_running=True).lost == {}


def test_what_a_start_moved_aside_is_named(data: pathlib.Path) -> None:
    for number in range(12):
        (data / f"t-{number + 10}-stray").mkdir()
    (note,) = [each for each in list_directory(ReadOnlyFiles(), str(data)).notes if "moved aside" in each]
    assert "t-10-stray, t-11-stray" in note
    assert "t-19-stray and 2 more" in note
    assert "t-20" not in note
