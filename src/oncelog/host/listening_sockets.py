"""Sockets that listen: one for each address of a host, with one port; and how to end listening."""

from __future__ import annotations

import asyncio
import errno
import socket

BACKLOG = 1_024
_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # of a machine without IPv6


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of `host`, all with the same port. Raises OSError.

    An empty host means every address, and so does `::`, as for Java (whose IPv6 sockets take IPv4 as well).
    """
    loop = asyncio.get_running_loop()
    host = "" if host == "::" else host
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    left_out: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                sockets.append(_listening(family, (address[0], port, *address[2:])))
            except OSError as error:
                if host or family != socket.AF_INET6 or error.errno not in _NOT_HERE:
                    raise
                left_out = error
                continue
            port = int(sockets[0].getsockname()[1])
        if not sockets:
            raise left_out or OSError(errno.EADDRNOTAVAIL, "it has no address")
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def stop_listening(server: asyncio.Server) -> None:
    """Accept no more, from now on; in the next step of the loop the sockets are closed.

    Who was accepted in this very step gets its protocol first. With `Server.close` at once it would stay open, and nobody
    would hear of it (CPython gh-109564: its transport cannot attach itself to a closed server, and the error is dropped).
    """
    loop = server.get_loop()
    for each in server.sockets:
        loop.remove_reader(each.fileno())
    loop.call_soon(server.close)


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
