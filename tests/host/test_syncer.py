"""Syncs that the loop does not wait for: natively where it is compiled, by threads of Python everywhere."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import StorageError
from oncelog.host import syncer as syncer_module
from oncelog.host.files import RealFile, RealFiles
from oncelog.host.syncer import RealSyncer, native_pool
from oncelog.log.later_writes import Writes

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


def test_what_is_to_be_written_is_written_and_given_back(tmp_path: pathlib.Path, syncer: RealSyncer) -> None:
    async def main() -> None:
        files = [file_at(tmp_path / name) for name in "abc"]
        datas = [bytearray(bytes([index]) * 300_000) for index in range(3)]
        writes = [
            Writes(file, [(300_000 * place, memoryview(data)) for place, data in enumerate(datas)]) for file in files
        ]
        plain = file_at(tmp_path / "plain")
        await syncer.sync([*writes, plain])
        for file in files:
            assert file.read_at(0, 1_000_000) == b"".join(datas)
            file.close()
        plain.close()
        del writes
        syncer.close()
        for data in datas:
            data.append(0)  # nobody looks at it any more

    asyncio.run(main())


@needs_native
def test_a_write_that_fails_natively_says_so(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        syncer, good, bad = RealSyncer(), file_at(tmp_path / "good"), file_at(tmp_path / "bad")
        kept = bad._descriptor
        bad._descriptor = os.open(tmp_path / "bad", os.O_RDONLY)
        with pytest.raises(StorageError, match=f"cannot write .*bad: {os.strerror(errno.EBADF)}"):
            await syncer.sync([Writes(good, [(0, b"x")]), Writes(bad, [(0, b"x")])])
        assert good.read_at(0, 9) == b"x"
        os.close(bad._descriptor)
        bad._descriptor = kept
        for file in (good, bad):
            file.close()
        syncer.close()

    asyncio.run(main())


@needs_native
def test_a_file_whose_limit_is_reached_gets_what_fits_and_says_so(tmp_path: pathlib.Path) -> None:
    """A write that the system cuts short is continued, and refused then: as on a disk that becomes full."""
    program = (
        "import asyncio, resource, signal, sys\n"
        "from oncelog.errors import StorageError\n"
        "from oncelog.host.files import RealFile\n"
        "from oncelog.host.syncer import RealSyncer\n"
        "from oncelog.log.later_writes import Writes\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "async def main():\n"
        "    syncer, file = RealSyncer(), RealFile(sys.argv[1], True)\n"
        "    try:\n"
        "        await syncer.sync([Writes(file, [(0, b'x' * 9000)])])\n"
        "    except StorageError as error:\n"
        "        print(file.size(), error)\n"
        "    syncer.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f")], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"5000 cannot write {tmp_path / 'f'}: {os.strerror(errno.EFBIG)}\n"


@needs_native
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.binary(max_size=9)), max_size=20))
def test_any_writes_end_and_give_back_what_they_were_given(items: list[tuple[int, int, bytes]]) -> None:
    from oncelog.host.native_sync import Pool

    with tempfile.TemporaryFile() as file:
        pool, datas = Pool(2), [bytearray(data) for _, _, data in items]
        expected = bytearray(60)
        wanted = []
        for index, (kind, _, _) in enumerate(items):
            position = 60 * index
            wanted.append(file.fileno() if kind == 0 else (file.fileno(), position, datas[index]))
        expected = b"".join(
            (b"" if kind == 0 else bytes(data)).ljust(60, b"\0")
            for (kind, _, _), data in zip(items, datas, strict=True)
        )
        token = pool.submit(wanted) if wanted else None  # type: ignore[arg-type]
        pool.close()
        assert pool.ended() == ([(token, 0, 0)] if wanted else [])
        for data in datas:
            data.append(0)
        file.seek(0)
        assert file.read().ljust(len(expected), b"\0") == expected


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
    data = bytearray(b"x")
    for wrong in ((1, 2), (1, 2, "text"), (1, "2", b"x"), (1, 2, b"x", 3), (1 << 70, 0, b"x"), (1, 1 << 70, b"x")):
        with pytest.raises((TypeError, OverflowError)):
            pool.submit([(0, 0, data), wrong])  # type: ignore[list-item]
    data.append(0)  # given back
    assert pool.ended() == []
    token = pool.submit([-1, -1])
    pool.close()
    assert pool.ended() == [(token, errno.EBADF, 0)]
