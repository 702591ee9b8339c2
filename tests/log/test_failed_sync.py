"""Writing anew what a failed sync may have lost: every byte of it, and not a byte more."""

from __future__ import annotations

import pytest
from evidence.world.files import Fault, Keep, PowerCut, SimFiles

from oncelog.errors import StorageError
from oncelog.log.failed_sync import (
    MARKER,
    MOVED_DIRECTORY,
    bring_back,
    expect_failed_sync,
    expect_failed_syncs,
    forget_failed_sync,
    make_names_again,
    note_expected,
    rewrite_after_failed_sync,
)

DIRECTORY = "data/t-0"
CONTENTS = {
    f"{0:020d}.log": b"synced" * 100,
    f"{5:020d}.log": b"first" * 100,
    f"{5:020d}.index": b"",
    f"{5:020d}.timeindex": b"t",
    f"{9:020d}.log": b"",
    "leader-epoch-checkpoint": b"0\n0\n",
}


def directory(left_of_an_earlier_copy: bytes) -> SimFiles:
    files = SimFiles()
    files.make_directory(DIRECTORY)
    for name, content in CONTENTS.items():
        file = files.open(f"{DIRECTORY}/{name}")
        file.append(content)
        file.close()
        files.replace_whole(f"{DIRECTORY}/{name}.tmp", left_of_an_earlier_copy)
    return files


@pytest.mark.parametrize("left_of_an_earlier_copy", [b"", b"longer than some of the files"])
def test_every_file_is_byte_for_byte_what_it_was_and_on_the_disk(left_of_an_earlier_copy: bytes) -> None:
    """Empty ones too, and where a start that was cut off left a copy behind."""
    files = directory(left_of_an_earlier_copy)
    expect_failed_sync(files, DIRECTORY)
    assert rewrite_after_failed_sync(files, DIRECTORY, known_synced_offset=0)
    assert {name: files.read_whole(f"{DIRECTORY}/{name}") for name in CONTENTS} == CONTENTS
    assert {name: files.read_synced(f"{DIRECTORY}/{name}") for name in CONTENTS} == CONTENTS
    assert not files.exists(f"{DIRECTORY}/{MARKER}")


def test_segments_that_are_known_to_be_synced_are_left_alone() -> None:
    files = directory(b"")
    expect_failed_sync(files, DIRECTORY)
    assert rewrite_after_failed_sync(files, DIRECTORY, known_synced_offset=5)
    assert files.read_synced(f"{DIRECTORY}/{0:020d}.log") != CONTENTS[f"{0:020d}.log"]
    assert files.read_synced(f"{DIRECTORY}/{5:020d}.log") == CONTENTS[f"{5:020d}.log"]


def test_without_the_mark_nothing_is_written() -> None:
    files = directory(b"")
    expect_failed_sync(files, DIRECTORY)
    forget_failed_sync(files, DIRECTORY)
    assert not rewrite_after_failed_sync(files, DIRECTORY, known_synced_offset=0)
    assert files.read_synced(f"{DIRECTORY}/{5:020d}.log") != CONTENTS[f"{5:020d}.log"]


@pytest.mark.parametrize("torn", [b"", b"\nno-such-directory\nt-", b"\n\xff\xfe"])
def test_a_list_of_those_that_are_synced_together_marks_each_of_them(torn: bytes) -> None:
    """A process that was killed in the middle of it, too: a name that nobody has says nothing."""
    files = directory(b"")
    files.make_directory("data/u-0")
    files.make_directory("data/v-0")
    expect_failed_syncs(files, "data", ["a-longer-name-0", "v-0"])
    expect_failed_syncs(files, "data", ["t-0", "u-0"])
    files.open(f"data/{MARKER}").append(torn)
    note_expected(files, "data")
    assert [name for name in ("t-0", "u-0", "v-0") if files.exists(f"data/{name}/{MARKER}")] == ["t-0", "u-0"]
    assert sorted(files.list("data")) == [MARKER, "t-0", "u-0", "v-0"]


def test_a_list_that_was_forgotten_marks_nobody() -> None:
    files = directory(b"")
    expect_failed_syncs(files, "data", ["t-0"])
    forget_failed_sync(files, "data")
    note_expected(files, "data")
    assert not files.exists(f"{DIRECTORY}/{MARKER}")


NAMES = ["a-0", "b-0", "c-1"]


def named(seed: int, *, fails: bool) -> SimFiles:
    """Three directories with a file each; the sync of their own names fails, and the process that asked is gone."""
    files = SimFiles(seed)
    files.make_directory("data")
    files.sync_directory("")
    for name in NAMES:
        files.make_directory(f"data/{name}")
        files.replace_whole(f"data/{name}/file", name.encode())
    if fails:
        files.fail_at(1, Fault.SYNC_ERROR)
        with pytest.raises(StorageError):
            files.sync_directory("data")
    else:
        files.sync_directory("data")
    files.kill()
    return files


def all_there(files: SimFiles) -> bool:
    return all(files.exists(f"data/{name}/file") for name in NAMES)


def test_names_that_a_failed_sync_dropped_are_made_again() -> None:
    lost = 0
    for seed in range(20):
        files = named(seed, fails=True)
        files.sync_directory("data")  # says that all is well
        files.crash(Keep.NONE)
        lost += not all_there(files)
        files = named(seed, fails=True)
        make_names_again(files, "data", NAMES)
        files.crash(Keep.NONE)
        assert all_there(files)
        bring_back(files, "data")
        assert sorted(set(files.list("data")) - {MOVED_DIRECTORY}) == NAMES
    assert lost > 5, "without it they are gone"


@pytest.mark.parametrize("keep", list(Keep))
@pytest.mark.parametrize("operation", range(1, 16))
def test_wherever_the_power_cuts_it_short_the_next_start_has_all_of_them(operation: int, keep: Keep) -> None:
    for seed in range(20):
        files = named(seed, fails=False)
        files.cut_power_at(operation)
        try:
            make_names_again(files, "data", NAMES)
        except PowerCut:
            files.crash(keep)
        files.heal()
        bring_back(files, "data")
        make_names_again(files, "data", NAMES)
        files.crash(Keep.NONE)
        assert [files.read_whole(f"data/{name}/file") for name in NAMES] == [name.encode() for name in NAMES]


@pytest.mark.parametrize("operation", range(1, 16))
def test_a_sync_that_fails_there_is_told_and_the_next_start_does_it_anew(operation: int) -> None:
    for seed in range(20):
        files = named(seed, fails=True)
        files.fail_at(operation, Fault.SYNC_ERROR)
        try:
            make_names_again(files, "data", NAMES)
        except StorageError:
            files.kill()
            bring_back(files, "data")
            make_names_again(files, "data", NAMES)
        files.crash(Keep.NONE)
        bring_back(files, "data")
        assert all_there(files)


@pytest.mark.parametrize("operation", range(1, 18))
def test_a_power_cut_in_the_start_behind_one_whose_sync_failed_loses_no_directory(operation: int) -> None:
    """The directory that they are moved into may have no name on the disk, though it is there: its sync is what failed."""
    for seed in range(60):
        files = named(seed, fails=False)
        files.fail_at(1, Fault.SYNC_ERROR)
        with pytest.raises(StorageError):
            make_names_again(files, "data", NAMES)
        files.kill()
        bring_back(files, "data")
        files.cut_power_at(operation)
        try:
            make_names_again(files, "data", NAMES)
        except PowerCut:
            files.crash(Keep.RANDOM)
        files.heal()
        bring_back(files, "data")
        assert all_there(files)


def test_nothing_is_done_for_nobody() -> None:
    files = SimFiles()
    make_names_again(files, "data", [])
    assert files.operation_count == 0


def test_two_directories_of_one_name_are_left_to_a_person() -> None:
    files = named(0, fails=False)
    files.make_directory(f"data/{MOVED_DIRECTORY}/a-0")
    with pytest.raises(StorageError, match=r"data/a-0 and data/.*/a-0 are both there"):
        bring_back(files, "data")
    assert all_there(files)
