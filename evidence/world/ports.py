"""Ports for servers that are started, killed and started again at one address."""

from __future__ import annotations

import atexit
import socket

_held: list[socket.socket] = []


def free_port() -> int:
    """A port that is nobody else's until this process ends: a socket that listens to nothing stays bound to it.

    One that was only looked for and given back may be taken before its server starts, or while it is dead: by another test's
    server, by any connection that goes out, even by one that its own client opens to it and so to itself. Servers that
    set SO_REUSEADDR (asyncio's, Java's, PostgreSQL's) share the port with the holder.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


@atexit.register
def _give_back() -> None:
    """Else each is warned of when the process ends, beside warnings that mean something."""
    for each in _held:
        each.close()
