"""Syncs that the loop does not wait for: natively where it is compiled, by threads of Python everywhere."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import threading

import pytest

from oncelog.errors import StorageError
from oncelog.host import syncer as syncer_module
from oncelog.host.files import RealFile, RealFiles
from oncelog.host.syncer import RealSyncer, native_pool

needs_native = pytest.mark.skipif(native_pool(1) is None, reason="native_sync is not compiled here")


class Recorded:
    """A Syncable that notes its thread, and fails on request."""

    def __init__(self, error: StorageError | None = None) -> None:
        self.error = error
        self.thread: int | None = None

    def sync(self) -> None:
        self.thread = threading.get_ident()
        if self.error is not None:
            raise self.error


def test_the_syncer_waits_in_other_threads_and_tries_all() -> None:
    async def main() -> None:
        syncer = RealSyncer()
        good = [Recorded() for _ in range(9)]
        await syncer.sync(good)
        assert all(each.thread not in (None, threading.get_ident()) for each in good)
        await syncer.sync([])
        bad = [Recorded(), Recorded(StorageError("cannot sync f")), Recorded()]
        with pytest.raises(StorageError, match="cannot sync f"):
            await syncer.sync(bad)
        assert all(each.thread is not None for each in bad)
        syncer.close()
        await syncer.sync(good[:1])  # a closed syncer opens again
        syncer.close()

    asyncio.run(main())


def file_at(path: pathlib.Path) -> RealFile:
    file = RealFiles().open(str(path))
    assert isinstance(file, RealFile)
    file.append(b"x")
    return file


@pytest.fixture(params=["native", "python"])
def syncer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RealSyncer:
    if request.param == "python":
        monkeypatch.setattr(syncer_module, "native_pool", lambda _: None)
    elif native_pool(1) is None:
        pytest.skip("native_sync is not compiled here")
    return RealSyncer()


def test_files_and_names_in_one_call(tmp_path: pathlib.Path, syncer: RealSyncer) -> None:
    async def main() -> None:
        files = [file_at(tmp_path / str(number)) for number in range(10)]
        names = Recorded()
        for _ in range(50):
            await syncer.sync([*files, names])
            await syncer.sync(files[:1])
        assert names.thread not in (None, threading.get_ident())
        await asyncio.gather(*(syncer.sync(files[number::3]) for number in range(3)))
        for file in files:
            file.close()
        await syncer.sync(files)  # closed meanwhile: nothing to do, for nobody
        syncer.close()

    asyncio.run(main())


def test_a_closed_syncer_and_another_loop(tmp_path: pathlib.Path, syncer: RealSyncer) -> None:
    file = file_at(tmp_path / "f")

    async def main() -> None:
        await syncer.sync([file])

    for _ in range(3):
        asyncio.run(main())
    syncer.close()
    asyncio.run(main())
    syncer.close()
    file.close()


def test_a_call_ends_though_its_caller_was_cancelled(tmp_path: pathlib.Path, syncer: RealSyncer) -> None:
    async def main() -> None:
        file = file_at(tmp_path / "f")
        for _ in range(20):
            waiting = asyncio.ensure_future(asyncio.wait_for(syncer.sync([file]), 10))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        await syncer.sync([file])
        syncer.close()
        file.close()

    asyncio.run(main())


@needs_native
def test_a_descriptor_stays_open_until_its_sync_has_ended(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        syncer, file = RealSyncer(), file_at(tmp_path / "f")
        descriptor = file._descriptor
        done = syncer.sync([file])
        file.close()
        file.close()
        os.fstat(descriptor)  # raises when it is closed
        file.sync()
        await done
        with pytest.raises(OSError):
            os.fstat(descriptor)
        syncer.close()

    asyncio.run(main())


@needs_native
def test_a_sync_that_fails_natively_is_reported_once_and_not_repeated(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        syncer = RealSyncer()
        good, bad = file_at(tmp_path / "good"), file_at(tmp_path / "bad")
        read_end, write_end = os.pipe()
        kept, bad._descriptor = bad._descriptor, write_end  # fdatasync refuses a pipe
        with pytest.raises(StorageError, match=f"cannot sync .*bad: {os.strerror(errno.EINVAL)}"):
            await syncer.sync([good, bad])
        await syncer.sync([good])
        bad._descriptor = kept
        for descriptor in (read_end, write_end):
            os.close(descriptor)
        good.close()
        bad.close()
        syncer.close()

    asyncio.run(main())


@needs_native
def test_the_pool_refuses_nonsense() -> None:
    from oncelog.host.native_sync import Pool

    with pytest.raises(ValueError, match="threads_max"):
        Pool(0)
    pool = Pool(1)
    with pytest.raises(ValueError, match="no descriptors"):
        pool.submit([])
    with pytest.raises(TypeError):
        pool.submit(["x"])  # type: ignore[list-item]
    assert pool.ended() == []
    token = pool.submit([-1, -1])
    pool.close()
    assert pool.ended() == [(token, errno.EBADF, 0)]
