"""The real network: free ports, ports in use, nobody there."""

import asyncio

import pytest

from oncelog.host.network import AddressInUse, ConnectFailed, NetworkFailed, RealNetwork


def test_listen_connect_and_what_can_go_wrong():
    async def work():
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, asyncio.Protocol)
        assert listener.port > 0
        with pytest.raises(AddressInUse, match="in use"):
            await network.listen("127.0.0.1", listener.port, asyncio.Protocol)
        transport, _ = await network.connect("127.0.0.1", listener.port, asyncio.Protocol)
        transport.abort()
        listener.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectFailed):
            await network.connect("127.0.0.1", listener.port, asyncio.Protocol)
        with pytest.raises(NetworkFailed):
            await network.listen("192.0.2.1", 0, asyncio.Protocol)

    asyncio.run(work())
