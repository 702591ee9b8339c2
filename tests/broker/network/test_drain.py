"""An orderly stop: what runs is answered, what only waits ends with it, and nothing new is begun."""

from __future__ import annotations

import asyncio
import dataclasses
from functools import partial

import pytest
from evidence.world.broker import Client, ConnectionClosed, fetch_request, keys, run, until
from evidence.world.security import handshake, secured_broker, send_raw_token, stranger

import oncelog.broker.broker as broker_module
from oncelog.broker.broker import Broker
from oncelog.broker.network.connection_limits import Admission
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest

E = ErrorCode
FOR_LONG_MS = 1_000_000  # far beyond what a stop waits


class HeldSyncer:
    """A syncer whose syncs wait for `go` once `is_held`."""

    def __init__(self, syncer):
        self._syncer = syncer
        self.is_held = False
        self.waiting = 0
        self.go = asyncio.Event()

    async def sync(self, files):
        if self.is_held:
            self.waiting += 1
            await self.go.wait()
        await self._syncer.sync(files)

    def close(self):
        self._syncer.close()


@pytest.mark.parametrize("comes_late", [False, True], ids=["parked before the stop", "sent during the stop"])
def test_a_fetch_behind_a_produce_that_runs_does_not_hold_up_the_stop(tmp_path, monkeypatch, comes_late):
    """The stop's own bound is out of the way: it must end by itself."""
    monkeypatch.setattr(broker_module, "DRAIN_TIMEOUT_S", FOR_LONG_MS)

    async def work():
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        broker = Broker(str(tmp_path), keys({}), dataclasses.replace(host, syncer=syncer))
        await broker.start()
        client = await Client.connect(broker)
        await client.create("t")
        syncer.is_held = True
        client.send(client.produce_request("t", "last"), 12)
        await until(lambda: syncer.waiting == 1)
        waits = fetch_request("t", 1, committed=False, wait_ms=FOR_LONG_MS)
        if not comes_late:
            client.send(waits, 12)
            await until(lambda: len(broker.server.tasks) == 1)
        stopping = asyncio.ensure_future(broker.stop())
        (connection,) = broker.server._connections
        await until(lambda: connection.is_draining)
        if comes_late:
            taken, heard = connection._take, asyncio.Event()
            connection._take = lambda receive, data: (taken(receive, data), heard.set())
            client.send(waits, 12)
            await heard.wait()
            assert len(broker.server.tasks) == 0, "nothing is begun any more"
        syncer.is_held = False
        syncer.go.set()
        _, reply = await client.receive()
        assert reply.responses[0].partition_responses[0].error_code == E.NONE
        with pytest.raises(ConnectionClosed):
            await client.frame()
        await stopping
        syncer.close()

    run(work())


@pytest.mark.parametrize("is_raw", [False, True], ids=["in a frame", "raw, which has no answer"])
def test_a_refused_login_that_is_held_back_is_told_at_a_stop(monkeypatch, is_raw):
    """The delay only slows down who guesses passwords: a stop has no use for it."""
    monkeypatch.setattr(broker_module, "DRAIN_TIMEOUT_S", FOR_LONG_MS)

    async def work():
        async with secured_broker(connection_failed_authentication_delay_ms=FOR_LONG_MS) as broker:
            client = await stranger(broker)
            await handshake(client, version=0 if is_raw else 1)
            if is_raw:
                send_raw_token(client, b"\0alice\0no")
            else:
                client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"), 2)
            await until(lambda: broker.metrics.count("authentications_failed") == 1)
            await broker.stop()
            if not is_raw:
                assert (await client.receive())[1].error_code == E.SASL_AUTHENTICATION_FAILED
            with pytest.raises(ConnectionClosed):
                await client.frame()

    run(work())


@pytest.mark.parametrize("is_refused", [False, True], ids=["max.connection.creation.rate", "a quota of its address"])
def test_a_connection_that_came_too_early_does_not_hold_up_the_stop(monkeypatch, is_refused):
    monkeypatch.setattr(broker_module, "DRAIN_TIMEOUT_S", FOR_LONG_MS)

    async def work():
        async with Broker(None, keys({})) as broker:
            broker.server.accepted = partial(held_back, broker.server.accepted, is_refused)
            client = await Client.connect(broker)
            client.send(ApiVersionsRequest(), 0)
            await until(lambda: any(each._is_delayed for each in broker.server._connections))
            await broker.stop()
            with pytest.raises(ConnectionClosed):
                await client.frame()

    def held_back(accepted, is_refused, connection):
        accepted(connection)
        return Admission(FOR_LONG_MS, is_refused=is_refused)

    run(work())
