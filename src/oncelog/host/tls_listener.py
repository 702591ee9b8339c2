"""Listening with TLS: each connection's handshake with the context of that moment, in a task that can be ended.

Connections are accepted here and not by the loop's server, because that one keeps its context for ever, tells nobody of a
handshake that failed, and does not say whose it is while it lasts.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol

from oncelog.host.listening_sockets import listening_sockets
from oncelog.host.tasks import Tasks
from oncelog.host.tls_alert import accepted

SHUTDOWN_S = 1.0  # for the other end's goodbye
ACCEPT_AGAIN_S = 1.0  # where the system has no descriptor left


class Handshake(Protocol):
    """A connection whose TLS handshake is under way."""

    @property
    def peer_name(self) -> object:
        """The other end's address as asyncio names it."""
        ...

    def abort(self) -> None:
        """End it now."""
        ...


class TlsListening(Protocol):
    """What a listening address with TLS asks of who listens: the context in force, and whether there is room."""

    tasks: Tasks

    @property
    def timeout_s(self) -> float:
        """How long a handshake may take."""
        ...

    def context(self) -> ssl.SSLContext:
        """For a connection that comes now."""
        ...

    def came(self, handshake: Handshake) -> None:
        """A connection came; `abort` ends it."""
        ...

    def ended(self, handshake: Handshake, reason: str) -> None:
        """The handshake is over; `reason` is empty where it succeeded."""
        ...


class _Handshaking:
    """One connection whose handshake is under way."""

    def __init__(self, peer_name: object) -> None:
        self.peer_name = peer_name
        self.task: asyncio.Task[None] | None = None
        self.is_begun = False
        self.reason = "it was cut off"

    def abort(self) -> None:
        if self.task is not None:
            self.task.cancel()


class TlsListener:
    """A listening address, all its sockets; `port` is the real one where 0 was asked for."""

    def __init__(
        self,
        host: str,
        sockets: list[socket.socket],
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: TlsListening,
    ) -> None:
        self.host = host
        self.port = int(sockets[0].getsockname()[1])
        self._protocol_factory = protocol_factory
        self._tls = tls
        self._accepting = [
            tls.tasks.start(self._accept(each), name="oncelog-tls-accept", on_end=partial(_close, each))
            for each in sockets
        ]

    @classmethod
    async def open(
        cls, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol], tls: TlsListening
    ) -> TlsListener:
        """Raises OSError."""
        sockets = await listening_sockets(host, port)
        return cls(host, sockets, protocol_factory, tls)

    def close(self) -> None:
        """Accept no more; handshakes under way go on."""
        for task in self._accepting:
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer_name = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # it went before it was taken
            except OSError:
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            handshaking = _Handshaking(peer_name)
            handshaking.task = self._tls.tasks.start(
                self._shake_hands(connection, handshaking),
                name="oncelog-tls",
                on_end=partial(self._ended, connection, handshaking),
            )
            self._tls.came(handshaking)

    def _ended(self, connection: socket.socket, handshaking: _Handshaking, _task: object) -> None:
        if not handshaking.is_begun:
            connection.close()
        self._tls.ended(handshaking, handshaking.reason)

    async def _shake_hands(self, connection: socket.socket, handshaking: _Handshaking) -> None:
        tls = self._tls
        handshaking.is_begun = True  # from here on the loop closes the socket
        try:
            connection.setblocking(False)
            accepted.set(connection)  # this task's, and what asyncio does for it
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol_factory,
                connection,
                ssl=tls.context(),
                ssl_handshake_timeout=tls.timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
            handshaking.reason = ""
        except ssl.SSLError as error:
            handshaking.reason = error.reason or "TLS failed"
        except (OSError, TimeoutError) as error:
            handshaking.reason = str(error) or type(error).__name__


def _close(listening: socket.socket, _task: object) -> None:
    listening.close()
