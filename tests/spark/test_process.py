"""In a worker of Spark's, and nowhere else: the collector is spared what is loaded, Spark's words are acknowledged at once."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import socket
from collections.abc import Iterator

import pytest

from oncelog.spark import process
from oncelog.spark.options import source_options
from oncelog.spark.plainly import plainly
from oncelog.spark.source import StreamReader
from tests.spark.fakes import in_a_worker


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has frozen nothing, and afterwards holds nothing frozen."""
    monkeypatch.setattr(process, "_freeze_count", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


@plainly
def task() -> str:
    return "done"


@plainly
def rows() -> Iterator[int]:
    yield 1


def test_outside_of_sparks_processes_nothing_is_frozen() -> None:
    assert (task(), list(rows())) == ("done", [1])
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("call", [task, lambda: list(rows())], ids=["a call", "a generator"])
def test_what_a_worker_has_loaded_is_out_of_the_collectors_sight(monkeypatch: pytest.MonkeyPatch, call: object) -> None:
    in_a_worker(monkeypatch)
    assert callable(call)
    call()
    assert gc.get_freeze_count() > 1000
    assert len(gc.get_objects()) < 1000


def test_it_is_frozen_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each freeze keeps the garbage of its moment for good."""
    in_a_worker(monkeypatch)
    made: list[list[object]] = []
    for _ in range(process.FREEZES_MAX + 1):
        made.append([task])  # seen by the collector until the task is over
        task()
    seen = gc.get_objects()
    assert [any(each is one for each in seen) for one in made] == [False] * process.FREEZES_MAX + [True]


def test_garbage_that_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch)
    for _ in range(process.FREEZES_MAX):
        task()
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """The end of a TCP connection that lets acknowledgements wait."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            yield client


def is_quick(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


needs_linux = pytest.mark.skipif(process.QUICK_ACKNOWLEDGEMENT is None, reason="TCP_QUICKACK is Linux's")


@needs_linux
def test_a_worker_acknowledges_at_once(monkeypatch: pytest.MonkeyPatch, connection: socket.socket) -> None:
    process.acknowledge_at_once([connection.fileno()])
    assert not is_quick(connection), "outside of Spark's processes nothing is touched"
    in_a_worker(monkeypatch)
    process.acknowledge_at_once([connection.fileno()])
    assert is_quick(connection)


def test_what_is_no_connection_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch)
    reading, writing = os.pipe()
    here, there = socket.socketpair()
    process.acknowledge_at_once([reading, writing, here.fileno(), 1_000_000])
    os.write(writing, b"p")
    here.send(b"s")
    assert (os.read(reading, 2), there.recv(2)) == (b"p", b"s")
    for each in (reading, writing):
        os.close(each)
    here.close()
    there.close()


@needs_linux
def test_no_descriptor_is_left_open(monkeypatch: pytest.MonkeyPatch, connection: socket.socket) -> None:
    """Each look at a file that is no socket left one; a worker that looks on was out of descriptors within seconds."""
    in_a_worker(monkeypatch)
    here, there = socket.socketpair()
    with contextlib.closing(select.epoll()) as waiting, here, there:
        files = [0, 1, 2, waiting.fileno(), here.fileno(), connection.fileno(), 1_000_000]
        before = os.listdir("/proc/self/fd")
        for _ in range(100):
            process.acknowledge_at_once(files)
        assert os.listdir("/proc/self/fd") == before
        assert is_quick(connection), "and none of them is closed"


def test_a_call_and_a_reader_that_is_unpacked_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for module in ("oncelog.spark.source", "oncelog.spark.plainly"):
        monkeypatch.setattr(f"{module}.acknowledge_at_once", lambda module=module: asked.append(module))
    task()
    assert list(rows()) == [1]
    assert asked == ["oncelog.spark.plainly"] * 2
    options = source_options({"bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}, is_stream=True)
    reader = pickle.loads(pickle.dumps(StreamReader(options, ["value"])))
    assert (asked[2:], reader.columns) == (["oncelog.spark.source"], ["value"])
