"""A disk, a network and a loop in memory: what a broker asks of them."""

from __future__ import annotations

import asyncio

import pytest
from bench.in_process.memory_host import MemoryFiles, MemoryLoop, MemorySyncer, memory_host

from oncelog.errors import StorageError
from oncelog.host.network import ConnectFailed


def test_files_hold_what_was_written_where_it_was_written():
    files = MemoryFiles()
    files.make_directory("a/b")
    file = files.open("a/b/f")
    file.append(b"12345")
    file.write_at(7, b"89")
    file.write_at(0, b"0")
    assert files.read_whole("a/b/f") == b"02345\0\x0089"
    assert (file.read_at(5, 100), file.size(), files.size_of("a/b/f")) == (b"\0\x0089", 9, 9)
    file.truncate(2)
    file.truncate(4)
    assert files.open("a/b/f", create=False).read_at(0, 10) == b"02\0\0"


def test_names_are_those_of_a_tree():
    files = MemoryFiles()
    files.make_directory("a/b")
    files.replace_whole("a/b/f", b"x")
    files.replace_whole("a/g", b"y")
    assert (files.list(""), files.list("a"), files.list("a/b")) == (["a"], ["b", "g"], ["f"])
    files.rename("a/b", "a/c")
    assert (files.list("a"), files.read_whole("a/c/f")) == (["c", "g"], b"x")
    files.remove("a/g")
    files.remove_directory("a/c")
    assert (files.list("a"), files.exists("a/c/f")) == ([], False)


def test_what_is_missing_is_a_storage_error():
    files = MemoryFiles()
    for ask in (
        lambda: files.open("f", create=False),
        lambda: files.open("no/f"),
        lambda: files.list("no"),
        lambda: files.read_whole("f"),
        lambda: files.rename("f", "g"),
    ):
        with pytest.raises(StorageError):
            ask()


def run(work):
    loop = MemoryLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def test_time_moves_only_while_everybody_waits():
    async def work():
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(10):
            await asyncio.sleep(0)
        assert loop.time() == begun
        await asyncio.sleep(3600)
        return loop.time() - begun

    assert run(work()) >= 3600


def test_a_wait_for_ever_is_an_error():
    async def work():
        await asyncio.get_running_loop().create_future()

    loop = MemoryLoop()
    task = loop.create_task(work())
    with pytest.raises(AssertionError, match="does not come"):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_a_sync_ends_in_a_later_turn():
    async def work():
        done = MemorySyncer().sync([])
        assert not done.done()
        await done

    run(work())


class Echo(asyncio.Protocol):
    """Answers each frame, and hangs up at `bye`."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if data == b"bye":
            self.transport.abort()
        else:
            self.transport.writelines([b"<", data])

    def connection_lost(self, exc):
        pass


def test_each_frame_goes_in_after_the_reply_to_the_one_before():
    async def work():
        _, network = memory_host()
        await network.listen("", 0, Echo)
        exchange = network.connect_client()
        await exchange.begin([b"1", b"2", b"3"])
        assert exchange.replies == [b"<1", b"<2", b"<3"]
        await exchange.begin([b"4"])
        assert exchange.replies == [b"<4"]
        with pytest.raises(ConnectionError):
            await exchange.begin([b"bye"])
        with pytest.raises(ConnectFailed):
            await network.connect("", 0, Echo)

    run(work())
