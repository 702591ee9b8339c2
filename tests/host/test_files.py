"""The real files: positional, durable on request, every failure a StorageError."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest
from evidence.world.naive_log import NaiveProducers, data_batch

from oncelog.errors import StorageError
from oncelog.host.files import RealFiles
from oncelog.log.config import LogConfig
from oncelog.log.files import DirectoryNames
from oncelog.log.recovery import recover


def test_a_file_is_written_read_and_cut(tmp_path: pathlib.Path) -> None:
    files = RealFiles()
    file = files.open(f"{tmp_path}/f")
    file.append(b"hello")
    file.append(memoryview(b" world"))
    file.write_at(0, bytearray(b"H"))
    assert file.read_at(0, 100) == b"Hello world"
    assert file.read_at(6, 3) == b"wor"
    assert file.read_at(50, 3) == b""
    file.truncate(5)
    file.append(b"!")
    file.sync()
    assert (file.size(), files.size_of(f"{tmp_path}/f")) == (6, 6)
    file.close()
    file.close()
    again = files.open(f"{tmp_path}/f", create=False)
    again.append(b"?")
    assert files.read_whole(f"{tmp_path}/f") == b"Hello!?"
    again.close()


def test_names(tmp_path: pathlib.Path) -> None:
    files, base = RealFiles(), str(tmp_path)
    files.make_directory(f"{base}/a/b")
    files.make_directory(f"{base}/a/b")
    files.replace_whole(f"{base}/a/x", b"1")
    files.replace_whole(f"{base}/a/x", b"22")
    assert files.list(f"{base}/a") == ["b", "x"]
    files.rename(f"{base}/a/x", f"{base}/a/b/y")
    assert files.exists(f"{base}/a/b/y")
    assert not files.exists(f"{base}/a/x")
    files.remove(f"{base}/a/x")
    files.sync_directory(f"{base}/a")
    files.remove_directory(f"{base}/a")
    files.remove_directory(f"{base}/a")
    assert files.list(base) == []


def test_a_file_that_is_replaced_is_durable_before_its_name_and_its_name_before_it_returns(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    names = {os.stat(tmp_path).st_ino: "sync the directory"}
    sync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append(names.get(os.fstat(descriptor).st_ino, "sync the file"))
        sync(descriptor)

    def renamed(source: str, target: str) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    RealFiles().replace_whole(f"{tmp_path}/f", b"1")
    assert steps == ["sync the file", "rename", "sync the directory"]


def test_a_file_of_the_present_directory_is_replaced(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RealFiles().replace_whole("f", b"1")
    assert (tmp_path / "f").read_bytes() == b"1"


def test_a_failure_says_what_was_tried_and_where(tmp_path: pathlib.Path) -> None:
    missing = f"{tmp_path}/none/f"
    for call, what in ((RealFiles().open, "open"), (RealFiles().lock, "open"), (RealFiles().size_of, "look at")):
        with pytest.raises(StorageError) as raised:
            call(missing)
        assert str(raised.value) == f"cannot {what} {missing}: No such file or directory"


def test_every_failure_is_a_storage_error(tmp_path: pathlib.Path) -> None:
    files, missing = RealFiles(), f"{tmp_path}/none/f"
    for call in (
        lambda: files.open(missing),
        lambda: files.open(f"{tmp_path}/f", create=False),
        lambda: files.list(missing),
        lambda: files.read_whole(missing),
        lambda: files.size_of(missing),
        lambda: files.replace_whole(missing, b""),
        lambda: files.rename(missing, f"{tmp_path}/g"),
        lambda: files.sync_directory(missing),
        lambda: files.lock(missing),
    ):
        with pytest.raises(StorageError, match="No such file"):
            call()


def test_a_full_disk_is_a_storage_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    file = RealFiles().open("/dev/full", create=False)
    with pytest.raises(StorageError, match="No space left"):
        file.write_at(0, b"x")
    file.close()


def test_a_short_write_is_continued(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFiles().open(f"{tmp_path}/f")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, bytes(data)[:3], position))
    file.append(b"0123456789")
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, data, position))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, 4), position))
    assert file.read_at(0, 10) == b"0123456789"
    assert file.read_at(5, 10) == b"56789"
    file.close()


def test_a_directory_is_locked_once(tmp_path: pathlib.Path) -> None:
    files, path = RealFiles(), f"{tmp_path}/.lock"
    lock = files.lock(path)
    with pytest.raises(StorageError, match="another server uses this directory"):
        files.lock(path)
    lock.close()
    lock.close()
    files.lock(path).close()


def test_a_closed_or_removed_file_needs_no_sync(tmp_path: pathlib.Path) -> None:
    """Its log was closed, or its topic deleted, while the sync was on its way: nobody else must suffer."""
    files = RealFiles()
    files.make_directory(f"{tmp_path}/d")
    file = files.open(f"{tmp_path}/d/f")
    names = DirectoryNames(files, f"{tmp_path}/d")
    names.sync()
    file.close()
    files.remove_directory(f"{tmp_path}/d")
    file.sync()
    names.sync()


def test_a_directory_that_was_gone_and_is_made_again_has_lost_no_names(tmp_path: pathlib.Path) -> None:
    """Its topic was deleted and made again between two looks of the thread that syncs: all that it syncs went offline."""

    class MadeAgain(RealFiles):
        def exists(self, path: str) -> bool:
            os.mkdir(path)
            return super().exists(path)

    DirectoryNames(MadeAgain(), f"{tmp_path}/d").sync()


def test_a_failed_sync_of_names_is_told(tmp_path: pathlib.Path) -> None:
    class Failing(RealFiles):
        def sync_directory(self, path: str) -> None:
            raise StorageError("cannot sync") from OSError(errno.EIO, "")

    with pytest.raises(StorageError, match="cannot sync"):
        DirectoryNames(Failing(), str(tmp_path)).sync()


def test_a_failed_fdatasync_is_a_storage_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, fdatasync = RealFiles().open(f"{tmp_path}/f"), os.fdatasync

    def fail(descriptor: int) -> None:
        if descriptor == file._descriptor:  # a broker of other tests may run beside it
            raise OSError(errno.EIO, "")
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        file.sync()
    file.close()


def test_a_log_on_the_real_disk(tmp_path: pathlib.Path) -> None:
    directory = str(tmp_path)
    config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    log = recover(RealFiles(), directory, config, NaiveProducers()).log
    for offset in range(40):
        data = data_batch(offset, value_bytes=200, producer_id=1)
        log.append(data, base_offset=offset, last_offset=offset, max_timestamp=offset, now_ms=offset)
    for file in log.files_to_sync():
        file.sync()
    log.mark_synced(40)
    assert log.recovery_point == log.segments[-1].base_offset > 0
    log.close()
    report = recover(RealFiles(), directory, config, NaiveProducers(), recovery_point=40, is_clean=True)
    assert (report.replayed_batch_count, report.log.log_end_offset) == (0, 40)
    read = report.log.read(17, 10_000, 40)
    assert read is not None
    assert read.base_offset == 17
    report.log.close()


def test_a_directory_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    RealFiles().make_directory(f"{tmp_path}/data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_looked_at_is_not_absent(tmp_path: pathlib.Path) -> None:
    """A transaction index was, and aborted records were read as committed."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"")
    files = RealFiles()
    with pytest.raises(StorageError, match=r"cannot look at .*loop: "):
        files.exists(f"{tmp_path}/loop")
    assert files.exists(f"{tmp_path}/file")
    assert not files.exists(f"{tmp_path}/none")
    assert not files.exists(f"{tmp_path}/file/none")
