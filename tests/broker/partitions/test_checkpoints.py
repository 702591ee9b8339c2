"""What the checkpoint files say at a start: of deleted partitions nothing, of damaged ones how far they go."""

from __future__ import annotations

from pathlib import Path

import pytest
from evidence.world.files import Fault, Keep, SimFiles, SimSyncer

from oncelog.broker.partitions.checkpoints import Checkpoints, JournalEnd
from oncelog.broker.partitions.partition_files import NewNames
from oncelog.errors import StorageError
from oncelog.host.files import RealFiles
from oncelog.host.worker import InlineWorker
from oncelog.log.checkpoint_files import (
    CLEANED_OFFSETS,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OFFLINE_CUTS,
    OFFLINE_ENDS,
    RECOVERY_POINTS,
    read_offsets,
)
from oncelog.log.files import DirectoryNames
from oncelog.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def opened(files: SimFiles) -> Checkpoints:
    names = NewNames(DirectoryNames(files, "d"))
    checkpoints = Checkpoints(files, "d", InlineWorker(), SimSyncer(), lambda: names)
    checkpoints.read()
    return checkpoints


def made() -> tuple[SimFiles, Checkpoints]:
    files = SimFiles()
    files.make_directory("d")
    files.sync_directory("")
    return files, opened(files)


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_START_OFFSETS, OFFLINE_ENDS, OFFLINE_CUTS])
def test_without_these_old_data_could_be_cut(name: str) -> None:
    files, _ = made()
    files.replace_whole(f"d/{name}", b"0\nmany\n")
    with pytest.raises(StorageError, match=f"d/{name} is damaged .*: restore it"):
        opened(files)


@pytest.mark.parametrize(
    ("name", "consequence"), [(RECOVERY_POINTS, "taken for a torn end"), (LOG_START_OFFSETS, "may be there again")]
)
def test_one_that_somebody_removed_is_told(name: str, consequence: str, caplog: pytest.LogCaptureFixture) -> None:
    _, checkpoints = made()
    for each in (RECOVERY_POINTS, LOG_START_OFFSETS):
        if each != name:
            checkpoints.write_now(each, {})
    checkpoints.tell_missing()
    [line] = caplog.messages
    assert line.startswith(f"{name} is missing: ")
    assert consequence in line


def test_a_lost_cleaned_offset_only_costs_time(caplog: pytest.LogCaptureFixture) -> None:
    files, _ = made()
    files.replace_whole(f"d/{CLEANED_OFFSETS}", b"0\nmany\n")
    assert opened(files).cleaned == {}
    assert "every compacted log is cleaned from its start again" in caplog.text


def test_a_deleted_partition_is_forgotten_in_all_of_them() -> None:
    _, checkpoints = made()
    checkpoints.recovery_points |= {A: 1, B: 2}
    checkpoints.log_starts |= {A: 3}
    checkpoints.stays_offline(A, JournalEnd(5, is_cut=True))
    checkpoints.forget(A)
    assert checkpoints.recovery_points_of([A, B]) == {B: 2}
    assert not any(offsets for offsets in checkpoints.by_file().values() if A in offsets)


def test_one_that_was_never_damaged_follows_the_journal() -> None:
    _, checkpoints = made()
    assert checkpoints.journal_end(A, 7, is_cut=True) == JournalEnd(7, True)
    assert checkpoints.journal_end(A, 7, is_cut=False) == JournalEnd(7, False)


@pytest.mark.parametrize("was_cut", [True, False])
def test_one_that_stays_offline_is_treated_as_all_were_at_its_first_start(was_cut: bool) -> None:
    files, checkpoints = made()
    checkpoints.recovery_points[A] = 3
    checkpoints.stays_offline(A, JournalEnd(5, was_cut))
    checkpoints.store_offline({A: "damaged"})
    files.crash(Keep.NONE)
    for is_cut in (True, False):
        again = opened(files)
        assert again.journal_end(A, 0, is_cut=is_cut) == JournalEnd(5, was_cut)
        again.stays_offline(A, again.journal_end(A, 0, is_cut=is_cut))
        again.store_offline({A: "damaged"})
    assert read_offsets(files, "d", OFFLINE_ENDS) == {A: 5}
    assert read_offsets(files, "d", OFFLINE_CUTS) == ({A: 5} if was_cut else {})


def test_a_journal_that_names_nothing_of_it_leaves_the_recovery_point() -> None:
    _, checkpoints = made()
    checkpoints.recovery_points |= {A: 3, B: 2}
    checkpoints.stays_offline(A, JournalEnd(0, is_cut=True))
    assert checkpoints.offline_cuts == {A: 3}
    assert checkpoints.synced_ends() == {A: 3, B: 2}


def test_of_one_that_was_opened_nothing_is_kept_whatever_a_failed_sync_left() -> None:
    """It is written to: an entry that came back would cut what was acknowledged since."""
    for seed in range(20):
        files = SimFiles(seed)
        files.make_directory("d")
        files.sync_directory("")
        first = opened(files)
        first.stays_offline(A, JournalEnd(5, is_cut=True))
        first.store_offline({A: "damaged"})
        repaired = opened(files)
        files.fail_at(1, Fault.SYNC_ERROR)
        with pytest.raises(StorageError):
            repaired.store_offline({})
        files.kill()
        opened(files).store_offline({})
        files.crash(Keep.NONE)
        assert opened(files).journal_end(A, 8, is_cut=False) == JournalEnd(8, False)


def test_where_nothing_was_ever_damaged_there_is_no_file() -> None:
    files, checkpoints = made()
    checkpoints.store_offline({})
    assert files.list("d") == []


@pytest.mark.parametrize("other", [RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED_OFFSETS])
def test_another_checkpoint_in_the_place_of_the_log_starts_ends_the_start(other: str) -> None:
    """It would have moved starts up, and hidden records; what has a line of the cluster's metadata is no file of log starts."""
    files, checkpoints = made()
    checkpoints.write_now(other, {A: 5, CLUSTER_METADATA: 9})
    files.replace_whole(f"d/{LOG_START_OFFSETS}", files.read_whole(f"d/{other}"))
    with pytest.raises(
        StorageError, match=f"d/{LOG_START_OFFSETS} is another checkpoint .*: restore it; without it, records"
    ):
        opened(files)


def test_of_the_clusters_metadata_only_the_end_is_taken() -> None:
    files, checkpoints = made()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED_OFFSETS):
        checkpoints.write_now(name, {A: 5, CLUSTER_METADATA: 9})
    found = opened(files)
    assert (found.metadata_end_offset, found.recovery_points, found.cleaned) == (9, {A: 5}, {A: 5})


@pytest.mark.parametrize("name", [HIGH_WATERMARKS, CLEANED_OFFSETS])
def test_one_that_is_written_anew_and_cannot_be_read_ends_the_start_not_the_stop(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    names = NewNames(DirectoryNames(RealFiles(), str(tmp_path)))
    checkpoints = Checkpoints(RealFiles(), str(tmp_path), InlineWorker(), SimSyncer(), lambda: names)
    with pytest.raises(StorageError, match=f"{name}: Is a directory: move it away and start again"):
        checkpoints.read()


def test_a_damaged_one_that_only_kafka_reads_costs_nothing() -> None:
    files, _ = made()
    files.replace_whole(f"d/{HIGH_WATERMARKS}", b"0\nmany\n")
    assert opened(files).recovery_points == {}
