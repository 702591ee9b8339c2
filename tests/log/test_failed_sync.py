"""Writing anew what a failed sync may have lost: every byte of it, and not a byte more."""

from __future__ import annotations

import pytest
from evidence.world.files import SimFiles

from oncelog.log.failed_sync import MARKER, expect_failed_sync, forget_failed_sync, rewrite_after_failed_sync

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
