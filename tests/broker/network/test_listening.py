"""A broker of several addresses serves on the first while it opens the others: everything that a request needs is there."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from evidence.world.broker import Client, eventually, keys, run, until

from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from tests.broker.coordinators.test_transactions import is_complete

E = ErrorCode


class SlowNetwork:
    """A network whose second listener needs `go`."""

    def __init__(self, network, has_shortcut):
        self._network = network
        self.has_shortcut = has_shortcut
        self.go = asyncio.Event()
        self.listeners = []

    async def listen(self, host, port, protocol_factory):
        if self.listeners:
            await self.go.wait()
        self.listeners.append(await self._network.listen(host, port, protocol_factory))
        return self.listeners[-1]

    async def connect(self, host, port, protocol_factory):
        return await self._network.connect(host, port, protocol_factory)


@pytest.mark.parametrize("has_shortcut", [True, False], ids=["plain calls", "over the network"])
def test_a_transaction_on_the_first_address_needs_nothing_of_the_second(tmp_path, has_shortcut):
    async def work():
        host = real_host()
        network = SlowNetwork(host.network, has_shortcut)
        listen = ["127.0.0.1:0", "127.0.0.1:0"]
        broker = Broker(str(tmp_path), keys({}), dataclasses.replace(host, network=network), listen=listen)
        starting = asyncio.ensure_future(broker.start())
        await until(lambda: bool(network.listeners))
        await until(lambda: bool(broker.server.listeners))
        client = await Client.connect(broker)
        await client.create("t")
        producer = await client.init("x")
        client.send(client.produce_request("t", "a", producer=producer, sequence=0, transactional_id="x"), 12)
        if has_shortcut:  # else the gate's task asks, which starts when all addresses are open
            _, reply = await client.receive()
        network.go.set()
        await starting
        if not has_shortcut:
            _, reply = await client.receive()
        assert reply.responses[0].partition_responses[0].error_code == E.NONE
        assert (await client.end("x", producer, commit=True)).error_code == E.NONE
        await eventually(lambda: is_complete(client, "x"))
        client.close()
        await broker.stop()
        host.syncer.close()

    run(work())
