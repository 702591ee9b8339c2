"""The real network: free ports, ports in use, nobody there."""

import asyncio
import socket

import pytest

from oncelog.host.network import AddressInUse, ConnectFailed, NetworkFailed, RealNetwork, shown_address


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
        refused = f"^cannot connect to 127.0.0.1:{listener.port}: Connection refused$"
        with pytest.raises(ConnectFailed, match=refused):  # asyncio says "Connect call failed ('127.0.0.1', 9092)"
            await network.connect("127.0.0.1", listener.port, asyncio.Protocol)
        with pytest.raises(NetworkFailed):
            await network.listen("192.0.2.1", 0, asyncio.Protocol)

    asyncio.run(work())


def test_a_name_of_several_addresses_names_each_that_refused(monkeypatch):
    """asyncio says "Multiple exceptions: [Errno 111] Connect call failed ('127.0.0.1', 9), ..."."""

    async def work():
        loop = asyncio.get_running_loop()

        async def addresses(*_, **__):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{each}", port)) for each in (1, 2)]

        with socket.socket() as held:  # bound, and nobody listens
            held.bind(("0.0.0.0", 0))
            port = held.getsockname()[1]
            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            told = f"^cannot connect to two:{port}: 127.0.0.1: Connection refused, 127.0.0.2: Connection refused$"
            with pytest.raises(ConnectFailed, match=told):
                await RealNetwork().connect("two", port, asyncio.Protocol)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("host", "shown"), [("::1", "[::1]:9"), ("127.0.0.1", "127.0.0.1:9"), ("unix:/run/x", "unix:/run/x:9")]
)
def test_an_address_is_shown_as_it_is_typed(host, shown):
    """`cannot connect to ::1:9` was no address that anybody could type."""
    assert shown_address(host, 9) == shown


class Ended(asyncio.Protocol):
    """Ends each connection as soon as it hears of it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]


@pytest.mark.parametrize("turns", range(6))
def test_who_is_accepted_as_listening_ends_is_told(turns):
    """Accepted in the step in which the listener was closed, it was held open by nobody, and its client waited for ever."""

    async def work():
        listener = await RealNetwork().listen("127.0.0.1", 0, Ended)
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            for _turn in range(turns):
                await asyncio.sleep(0)
            listener.close()
            for _turn in range(6):
                await asyncio.sleep(0)
            client.setblocking(False)
            try:
                told = client.recv(1)
            except ConnectionResetError:
                told = b""
        assert told == b""

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
