"""The simulated disk loses what a real one may lose, and nothing else."""

from __future__ import annotations

import pytest

from evidence.world.files import Fault, Keep, PowerCut, SimFiles
from oncelog.errors import StorageError


def with_file(seed: int = 0, content: bytes = b"") -> SimFiles:
    files = SimFiles(seed)
    files.make_directory("d")
    files.sync_directory("")
    file = files.open("d/f")
    file.write_at(0, content)
    file.sync()
    files.sync_directory("d")
    return files


def test_unsynced_bytes_are_kept_lost_or_torn_at_sectors() -> None:
    outcomes = set()
    for seed in range(200):
        files = with_file(seed, b"a" * 1024)
        files.open("d/f").write_at(0, b"b" * 1024)
        files.crash()
        outcomes.add(bytes(files.read_whole("d/f")))
    a, b = b"a" * 512, b"b" * 512
    assert outcomes == {a + a, b + b, a + b, b + a}


def test_any_subset_of_the_writes_survives() -> None:
    """Also a later write without an earlier one: the hole reads as zeros."""
    outcomes = set()
    for seed in range(300):
        files = with_file(seed)
        for i in range(3):
            files.open("d/f").append(bytes([97 + i]))
        files.crash()
        outcomes.add(bytes(files.read_whole("d/f")))
    assert {b"", b"a", b"ab", b"abc", b"\0b", b"\0\0c", b"a\0c", b"\0bc"} == outcomes


@pytest.mark.parametrize(("keep", "content"), [(Keep.ALL, b"new"), (Keep.NONE, b"old")])
def test_all_or_nothing(keep: Keep, content: bytes) -> None:
    files = with_file(content=b"old")
    files.open("d/f").write_at(0, b"new")
    files.crash(keep)
    assert files.read_whole("d/f") == content


def test_names_need_their_directory_synced() -> None:
    files = with_file()
    files.open("d/g").sync()
    files.rename("d/f", "d/h")
    files.crash(Keep.NONE)
    assert files.list("d") == ["f"]
    files.open("d/g")
    files.rename("d/f", "d/h")
    files.sync_directory("d")
    files.remove("d/g")
    files.crash(Keep.NONE)
    assert files.list("d") == ["g", "h"]
    seen = set()
    for seed in range(40):
        files = with_file(seed)
        files.open("d/g")
        files.remove("d/f")
        files.crash()
        seen.add(tuple(files.list("d")))
    assert seen == {("f",), ("f", "g"), ("g",), ()}


def test_replace_whole_is_all_or_nothing_at_every_operation() -> None:
    for operation in range(1, 8):
        for seed in range(10):
            files = with_file(seed, b"old")
            files.cut_power_at(operation)
            try:
                files.replace_whole("d/f", b"new!")
            except PowerCut:
                files.crash()
                assert files.read_whole("d/f") in (b"old", b"new!")
            else:
                files.crash(Keep.NONE)
                assert files.read_whole("d/f") == b"new!"


def test_a_failed_sync_loses_what_a_later_one_claims() -> None:
    outcomes = set()
    for seed in range(30):
        files = with_file(seed)
        file = files.open("d/f")
        file.append(b"x")
        files.fail_at(1, Fault.SYNC_ERROR)
        with pytest.raises(StorageError):
            file.sync()
        file.sync()
        assert files.read_whole("d/f") == b"x"
        files.crash(Keep.ALL)
        outcomes.add(files.read_whole("d/f"))
    assert outcomes == {b"", b"x"}


def test_faults_strike_once_or_for_good() -> None:
    files = with_file()
    file = files.open("d/f")
    files.fail_at(2, Fault.DISK_FULL)
    file.append(b"1")
    with pytest.raises(StorageError, match="DISK_FULL"):
        file.append(b"22")
    file.append(b"3")
    assert files.read_whole("d/f") == b"123", "half of the failed write is there"
    files.fail_at(1, Fault.IO_ERROR, is_sticky=True)
    for _ in range(2):
        with pytest.raises(StorageError, match="IO_ERROR"):
            file.append(b"4")
    files.heal()
    files.fail_reads_from(1)
    with pytest.raises(StorageError, match="Input/output error"):
        file.read_at(0, 1)


def test_after_a_power_cut_nothing_works_until_the_crash_is_over() -> None:
    files = with_file()
    file = files.open("d/f")
    files.cut_power_at(1)
    for _ in range(2):
        with pytest.raises(PowerCut):
            file.append(b"x")
    with pytest.raises(PowerCut):
        file.read_at(0, 1)
    files.crash(Keep.ALL)
    assert files.read_whole("d/f") == b"x", "the write under way may have reached the disk"
    with pytest.raises(PowerCut):
        file.append(b"a handle from before")


def test_a_kill_keeps_the_page_cache_and_frees_locks() -> None:
    files = with_file()
    files.lock("d/.lock")
    with pytest.raises(StorageError):
        files.lock("d/.lock")
    files.open("d/f").append(b"unsynced")
    files.kill()
    files.lock("d/.lock").close()
    assert files.read_whole("d/f") == b"unsynced"


def test_a_renamed_directory_takes_its_files_along() -> None:
    files = with_file(content=b"x")
    files.rename("d", "e")
    assert files.read_whole("e/f") == b"x"
    files.crash(Keep.NONE)
    assert files.list("") == ["d"]
    files.rename("d", "e")
    files.sync_directory("")
    files.crash(Keep.NONE)
    assert files.read_whole("e/f") == b"x"
    files.remove_directory("e")
    assert files.list("") == []


def test_the_same_seed_loses_the_same() -> None:
    def run() -> dict[str, bytes]:
        files = with_file(3)
        for i in range(20):
            files.open(f"d/{i}").append(bytes(2000))
        files.crash()
        return files.snapshot()

    assert run() == run()


def test_bit_rot() -> None:
    files = with_file(content=b"\0\0")
    files.flip_bit("d/f", 9)
    assert files.read_whole("d/f") == b"\0\2"
