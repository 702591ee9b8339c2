"""Where a host's name leads, and what a machine without IPv6 does."""

import asyncio
import errno
import socket

import pytest

from oncelog.host import listening_sockets as module
from oncelog.host.listening_sockets import listening_sockets


def gone(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def test_every_address_of_ipv6_is_every_address_of_ipv4_too():
    """As for Java: whoever is told `localhost` may look it up as 127.0.0.1."""

    async def work():
        sockets = await listening_sockets("::", 0)
        assert len({each.getsockname()[1] for each in sockets}) == 1
        port = sockets[0].getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
        gone(sockets)

    asyncio.run(work())


def test_a_machine_without_ipv6_listens_on_what_it_has(monkeypatch):
    real = module._listening

    def without_ipv6(family: int, address: tuple[object, ...]) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return real(family, address)

    async def work():
        monkeypatch.setattr(module, "_listening", without_ipv6)
        sockets = await listening_sockets("", 0)
        assert {each.family for each in sockets} == {socket.AF_INET}
        gone(sockets)
        with pytest.raises(OSError, match="Cannot assign"):
            await listening_sockets("::1", 0)

    asyncio.run(work())


def test_where_one_address_is_taken_none_is_kept():
    async def work():
        [taken] = await listening_sockets("127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            await listening_sockets("127.0.0.1", taken.getsockname()[1])
        gone([taken])

    asyncio.run(work())
