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


def test_names_are_looked_up_also_while_the_interpreter_ends(monkeypatch):
    """`concurrent.futures` takes nothing then, and a client that sends its last records has a name to look up."""

    def refused(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    async def work():
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, asyncio.Protocol)
        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refused)
        transport, _ = await network.connect("localhost", listener.port, asyncio.Protocol)
        transport.abort()
        listener.close()
        with pytest.raises(ConnectFailed, match="cannot connect to no-such-host"):
            await network.connect("no-such-host.invalid", 9, asyncio.Protocol)
        await asyncio.sleep(0)

    asyncio.run(work())
