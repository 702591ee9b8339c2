"""Files opened for reading only: what is no file is refused, and nothing waits for it."""

from __future__ import annotations

import os
import pathlib

import pytest

from oncelog.errors import StorageError
from oncelog.host.read_only_files import ReadOnlyFiles, is_locked


def test_a_file_is_read_where_it_is(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    file = ReadOnlyFiles().open(str(tmp_path / "a"))
    assert (file.size(), file.read_at(3, 4), file.read_at(8, 9), file.read_at(99, 1)) == (10, b"3456", b"89", b"")
    file.close()
    assert ReadOnlyFiles().read_whole(str(tmp_path / "a")) == b"0123456789"


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "nothing"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: pathlib.Path, kind: str) -> None:
    path = "/dev/zero" if kind == "device" else str(tmp_path / kind)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        os.mkdir(path)
    with pytest.raises(StorageError, match="No such file" if kind == "nothing" else "it is no regular file"):
        ReadOnlyFiles().open(path)


def test_what_cannot_be_looked_at_is_not_for_that_absent(tmp_path: pathlib.Path) -> None:
    """A link in a circle stands for a directory without the right to enter it, which root has."""
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    files = ReadOnlyFiles()
    assert files.exists(str(tmp_path))
    assert not files.exists(str(tmp_path / "a" / "b"))
    with pytest.raises(StorageError, match="cannot be read"):
        files.exists(str(tmp_path / "circle"))
    assert not is_locked(str(tmp_path / ".lock"))
    with pytest.raises(StorageError, match="nothing tells whether a broker runs there"):
        is_locked(str(tmp_path / "circle"))
