"""What is in the log and not in its file yet: it is written before anybody else is given the file, and once is enough."""

from __future__ import annotations

import pytest
from evidence.world.files import Fault, SimFiles
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import StorageError
from oncelog.log.later_writes import Writes
from oncelog.log.open_files import OpenFiles


def opened() -> tuple[OpenFiles, SimFiles]:
    files = SimFiles()
    files.make_directory("d")
    return OpenFiles(files, 1), files


def content(files: SimFiles) -> bytes:
    return files.read_whole("d/a")


def begun(files: OpenFiles, end_offset: int) -> Writes:
    later = files.later("d/a")
    assert later is not None
    writes = later.begin(end_offset)
    assert writes is not None
    return writes


def test_a_thread_writes_what_waits_and_what_comes_meanwhile_goes_next() -> None:
    files, disk = opened()
    files.pin("d/a").write_at(0, b"ab")
    files.write_later("d/a", 2, 2, b"cd")
    files.write_later("d/a", 3, 4, b"ef")
    first = begun(files, 4)
    files.write_later("d/a", 4, 6, b"gh")
    assert content(disk) == b"ab"
    first.sync()
    later = files.later("d/a")
    assert later is not None
    assert (later.base_offset, later.position) == (2, 2), "nobody may count on it before it is told"
    assert not later.ended(first)
    assert (content(disk), later.base_offset, later.position) == (b"abcdef", 4, 6)
    second = begun(files, 5)
    second.sync()
    assert later.ended(second)
    assert content(disk) == b"abcdefgh"


@pytest.mark.parametrize("ask", [lambda files: files.get("d/a"), lambda files: files.pin("d/a")])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_who_opens_the_file_finds_all_of_it(ask, is_under_way) -> None:
    files, _ = opened()
    files.pin("d/a")
    files.write_later("d/a", 0, 0, b"ab")
    writes = begun(files, 1) if is_under_way else None
    files.write_later("d/a", 1, 2, b"cd")
    assert files.as_it_is("d/a").read_at(0, 9) == b""
    assert ask(files).read_at(0, 9) == b"abcd"
    assert files.later("d/a") is None
    if writes is not None:
        writes.sync()  # the thread is late: the same bytes in the same place
    files.write_later("d/a", 2, 4, b"ef")
    later = files.later("d/a")
    assert later is not None
    if writes is not None:
        assert not later.ended(writes), "of what was settled meanwhile"
    assert (later.base_offset, later.position) == (2, 4)
    assert files.get("d/a").read_at(0, 9) == b"abcdef"


def test_what_cannot_be_written_is_still_to_be_written() -> None:
    files, disk = opened()
    files.pin("d/a")
    files.write_later("d/a", 0, 0, b"ab")
    disk.fail_at(1, Fault.DISK_FULL)
    with pytest.raises(StorageError):
        files.get("d/a")
    assert files.later("d/a") is not None
    assert files.get("d/a").read_at(0, 9) == b"ab"


def test_what_is_forgotten_is_not_written() -> None:
    files, disk = opened()
    files.pin("d/a")
    files.write_later("d/a", 0, 0, b"ab")
    later = files.forget_later("d/a")
    assert later is not None
    assert (later.base_offset, later.position, files.forget_later("d/a")) == (0, 0, None)
    files.write_later("d/a", 0, 0, b"ab")
    files.forget("d/a")
    assert files.get("d/a").read_at(0, 9) == b""
    assert content(disk) == b""


@given(st.lists(st.sampled_from(("add", "begin", "write", "end", "open")), max_size=30))
def test_whatever_comes_in_whatever_order_the_file_has_what_it_says(steps: list[str]) -> None:
    files, disk = opened()
    files.pin("d/a")
    due, under_way = b"", None
    for step in steps:
        later = files.later("d/a")
        if step == "add":
            files.write_later("d/a", len(due), len(due), bytes([len(due)]))
            due += bytes([len(due)])
        elif step == "begin" and later is not None and under_way is None:
            under_way = later.begin(len(due))
        elif step == "write" and under_way is not None:
            under_way.sync()
        elif step == "end" and under_way is not None:
            under_way.sync()
            if later is not None and later.ended(under_way):
                files.forget_later("d/a")
            under_way = None
        elif step == "open":
            assert files.get("d/a").read_at(0, 99) == due
        later = files.later("d/a")
        end = len(due) if later is None else later.position
        assert later is None or later.base_offset == later.position
        assert content(disk)[:end] == due[:end]
    assert files.get("d/a").read_at(0, 99) == due
