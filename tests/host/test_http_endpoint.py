"""What answers GET requests: at once or later, and what it gives up."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import run, until

from oncelog.host import http_endpoint
from oncelog.host.http_endpoint import HttpEndpoint
from oncelog.host.network import RealNetwork


async def ask(listener, path="/"):
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(f"GET {path}?x=1 HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    return reader, writer


async def all_of(asked):
    reader, writer = asked
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split()[1]), body.decode()


def test_an_answer_may_come_later():
    async def work():
        asked, may_answer, cancelled = [], asyncio.Event(), asyncio.Event()

        async def later(path):
            asked.append(path)
            try:
                await may_answer.wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return "200 OK", "late"

        endpoint = HttpEndpoint(lambda path: later(path) if path == "/later" else ("404 Not Found", path))
        listener = await RealNetwork().listen("127.0.0.1", 0, endpoint)
        waits, leaves = await ask(listener, "/later"), await ask(listener, "/later")
        waits[1].write(b"GET /later HTTP/1.1\r\n\r\n")  # a second question is not heard
        assert await all_of(await ask(listener)) == (404, "/")
        await until(lambda: len(asked) == 2)
        leaves[1].close()
        await cancelled.wait()
        may_answer.set()
        assert await all_of(waits) == (200, "late")
        assert asked == ["/later"] * 2
        listener.close()

    run(work())


def test_who_does_not_read_makes_room(monkeypatch):
    page = "x" * (32 << 20)  # twice what the system takes in for the other end, and more
    monkeypatch.setattr(http_endpoint, "UNSENT_BYTES_MAX", 2 * len(page))

    async def work():
        endpoint = HttpEndpoint(lambda _: ("200 OK", page))
        listener = await RealNetwork().listen("127.0.0.1", 0, endpoint)
        first, second = await ask(listener), await ask(listener)
        await until(lambda: sum(each.unsent_bytes > 0 for each in endpoint.connections) == 2)
        assert len((await all_of(await ask(listener)))[1]) == len(page)
        assert len((await all_of(second))[1]) == len(page)
        with pytest.raises((ConnectionError, AssertionError)):
            assert len((await all_of(first))[1]) == len(page)
        listener.close()

    run(work())
