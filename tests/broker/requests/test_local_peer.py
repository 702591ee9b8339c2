"""The broker as its own peer: what comes of a question, whatever its handler does."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.broker.requests.handler_task import begin_in_task
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Later
from oncelog.host.tasks import Tasks
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.metadata import MetadataRequest


def replies(_request):
    return "reply"


def has_replied(_request):
    later = Later()
    later.give("reply")
    return later


def replies_later(request):
    async def work():
        await asyncio.sleep(0)
        return "reply"

    return begin_in_task(request, work())


def breaks(_request):
    raise ValueError("planted")


def breaks_later(request):
    async def work():
        await asyncio.sleep(0)
        raise ValueError("planted")

    return begin_in_task(request, work())


def waits(request):
    return begin_in_task(request, asyncio.Event().wait())


class World:
    def __init__(self, handle):
        self.reported, self.heard = [], []
        self.tasks = Tasks(self.reported.append)
        self.peer = LocalPeer(handle, self.tasks, client_id="test")

    def ask(self):
        self.peer.ask(ApiKey.METADATA, MetadataRequest(), self.heard.append, self.heard.append)


@pytest.mark.parametrize("handle", [replies, has_replied, replies_later])
def test_the_reply_comes_back(handle):
    async def main():
        world = World(handle)
        assert await world.peer.call(ApiKey.METADATA, MetadataRequest()) == "reply"
        world.ask()
        await world.tasks.finished()
        await asyncio.sleep(0)
        assert world.heard == ["reply"]

    asyncio.run(main())


@pytest.mark.parametrize("handle", [breaks, breaks_later])
def test_a_mistake_comes_back_to_who_waits(handle):
    async def main():
        world = World(handle)
        with pytest.raises(ValueError, match="planted"):
            await world.peer.call(ApiKey.METADATA, MetadataRequest())

    asyncio.run(main())


def test_a_mistake_in_a_task_is_reported_and_heard():
    async def main():
        world = World(breaks_later)
        world.ask()
        await world.tasks.finished()
        await asyncio.sleep(0)
        assert world.heard == world.reported
        assert [type(error) for error in world.heard] == [ValueError]

    asyncio.run(main())


def test_where_the_broker_ends_who_waits_ends_too():
    async def main():
        world = World(waits)
        world.ask()
        called = asyncio.ensure_future(world.peer.call(ApiKey.METADATA, MetadataRequest()))
        await asyncio.sleep(0)
        await world.tasks.close()
        assert world.heard == [None]
        with pytest.raises(asyncio.CancelledError):
            await called

    asyncio.run(main())
