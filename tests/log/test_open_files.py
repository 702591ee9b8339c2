"""Open files are bounded; what is unsynced stays open."""

from __future__ import annotations

from evidence.world.files import SimFile, SimFiles

from oncelog.log.open_files import OpenFiles


def opened(files_max: int) -> OpenFiles:
    files = SimFiles()
    files.make_directory("d")
    return OpenFiles(files, files_max)


def is_closed(file: object) -> bool:
    assert isinstance(file, SimFile)
    return file._is_closed


def test_the_least_recently_used_is_closed_first() -> None:
    files = opened(2)
    a, b = files.get("d/a"), files.get("d/b")
    assert files.get("d/a") is a
    files.get("d/c")
    assert (is_closed(a), is_closed(b), len(files)) == (False, True, 2)
    assert files.get("d/b") is not b


def test_a_pinned_file_stays_open_until_it_is_unpinned() -> None:
    files = opened(1)
    a = files.pin("d/a")
    assert files.pin("d/a") is a
    for name in "bcd":
        files.get(f"d/{name}")
    assert not is_closed(a)
    assert files.get("d/a") is a
    files.unpin("d/a")
    files.unpin("d/a")
    assert len(files) == 1
    files.get("d/e")
    assert is_closed(a)


def test_forgotten_and_closed() -> None:
    files = opened(5)
    a, b, c = files.pin("d/a"), files.get("d/b"), files.get("d/c")
    files.forget("d/a")
    files.forget("d/b")
    files.forget("d/never")
    assert (is_closed(a), is_closed(b), is_closed(c)) == (True, True, False)
    files.close()
    assert is_closed(c)
    assert len(files) == 0


def test_all_in_a_directory_are_forgotten_and_no_other() -> None:
    files = opened(5)
    files.files.make_directory("d-1")
    a, b, c = files.pin("d/a"), files.get("d/b"), files.get("d-1/c")
    files.forget_all_in("d")
    assert (is_closed(a), is_closed(b), is_closed(c), len(files)) == (True, True, False, 1)
    assert files.get("d/a") is not a


def test_idle_files_are_closed_and_unsynced_ones_stay_open() -> None:
    files = SimFiles()
    open_files = OpenFiles(files)
    idle, pinned = open_files.get("idle"), open_files.pin("pinned")
    open_files.close_idle()
    assert len(open_files) == 1
    assert open_files.get("pinned") is pinned
    assert open_files.get("idle") is not idle
