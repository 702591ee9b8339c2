"""A handler that is a coroutine: who hears of its reply, its error, its cancellation; what waits for it."""

import asyncio

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, eventually, run

from oncelog.broker import handlers
from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.handler_task import begin_in_task
from oncelog.broker.requests.request import Later, Request
from oncelog.host.tasks import Tasks
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.metadata import MetadataRequest


class Asker:
    """The connection of a request, and who listens to its outcome."""

    def __init__(self):
        self.errors, self.heard = [], []
        self.tasks = Tasks(self.errors.append)
        self.request = Request(ApiKey.HEARTBEAT, 0, 0, "", None, self)

    def given(self, reply):
        self.heard.append(reply)

    def turn_released(self):
        raise AssertionError("a task keeps its turn until it has ended")

    def failed(self, _error):
        self.heard.append("failed")


async def until(question):
    async def asked():
        await asyncio.sleep(0)
        return question()

    await eventually(asked)


async def steps(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def replies():
    await asyncio.sleep(0)
    return "reply"


async def fails():
    await asyncio.sleep(0)
    raise ValueError("planted")


def refuse(_reply):
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("work", "finish", "heard", "errors"),
    [
        (replies, str.upper, ["REPLY"], []),
        (fails, str.upper, ["failed"], [ValueError]),
        (replies, refuse, ["failed"], [KeyError]),
    ],
    ids=["reply", "error", "error of what finishes it"],
)
def test_the_listener_hears_once_how_it_ended(work, finish, heard, errors):
    async def main():
        asker = Asker()
        outcome = finished(asker.request, begin_in_task(asker.request, work()), finish)
        assert isinstance(outcome, Later)
        assert outcome.keeps_turn
        outcome.listen(asker)
        await steps()
        assert asker.heard == heard
        assert [type(error) for error in asker.errors] == errors

    asyncio.run(main())


@pytest.mark.parametrize("step_count", [0, 1, 2], ids=["before its first step", "waiting", "waiting on"])
def test_a_dropped_task_is_cancelled_and_nobody_hears(step_count):
    """Before its first step too: a coroutine that never ran is closed, not lost with a warning."""
    ended = []

    async def waits():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("ended")

    async def main():
        asker = Asker()
        outcome = finished(asker.request, begin_in_task(asker.request, waits()), str.upper)
        outcome.listen(asker)
        await steps(step_count)
        outcome.drop()
        await steps()
        assert (asker.heard, asker.errors, len(asker.tasks)) == ([], [], 0)
        assert ended == (["ended"] if step_count else [])

    asyncio.run(main())


def test_a_cancelled_owner_fails_what_runs():
    async def main():
        asker = Asker()
        begin_in_task(asker.request, replies()).listen(asker)
        await asker.tasks.close()
        assert (asker.heard, asker.errors) == (["failed"], [])

    asyncio.run(main())


def test_the_request_behind_a_task_begins_when_that_has_ended(tmp_path, monkeypatch):
    """Replies keep the order of requests; effects do."""
    order = []

    async def main():
        gate = asyncio.get_running_loop().create_future()

        async def slow(_node, _request):
            order.append("begun")
            await gate
            order.append("ended")
            return HeartbeatResponse()

        async with broker_and_client(tmp_path) as (broker, client):
            await client.call(MetadataRequest())
            metadata = handlers.handler_for(ApiKey.METADATA)
            monkeypatch.setitem(handlers._loaded, ApiKey.HEARTBEAT, slow)
            monkeypatch.setitem(
                handlers._loaded, ApiKey.METADATA, lambda *asked: order.append("behind") or metadata(*asked)
            )
            sent = [
                client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
                client.send(MetadataRequest(topics=[]), 12),
            ]
            await until(lambda: order == ["begun"] and broker.server.queued_count == 1)
            gate.set_result(None)
            assert [(await client.receive())[0] for _ in sent] == sent
            assert order == ["begun", "ended", "behind"]

    run(main())


def test_an_error_in_a_task_ends_its_connection_only(tmp_path, monkeypatch):
    async def planted(_node, _request):
        await asyncio.sleep(0)
        raise ValueError("planted")

    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            monkeypatch.setitem(handlers._loaded, ApiKey.HEARTBEAT, planted)
            with pytest.raises(ConnectionClosed):
                await client.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
            assert broker.metrics._counts["handler_failures"] == 1
            other = await Client.connect(broker)
            await other.call(ApiVersionsRequest(), 0)
            other.close()

    run(main())


def test_a_lost_connection_cancels_its_tasks(tmp_path, monkeypatch):
    ended = []

    async def waits(_node, _request):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("ended")

    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            monkeypatch.setitem(handlers._loaded, ApiKey.HEARTBEAT, waits)
            client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
            await until(lambda: len(broker.server.tasks) == 1)
            client.close()
            await until(lambda: ended == ["ended"] and not len(broker.server.tasks))

    run(main())
