"""Why a handshake was refused is told the other end: OpenSSL writes the alert, asyncio drops it with the connection.

The other end would see a lost connection, take it for the network's mood, and try again.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar

accepted: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)
"""Whose handshake a task is about; set before asyncio begins it."""


class AlertingObject(ssl.SSLObject):
    """The server's end of one connection."""

    alerts: ssl.MemoryBIO | None = None
    socket: socket.socket | None = None

    def do_handshake(self) -> None:
        """A step of it; one that fails sends what OpenSSL has to say about it."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.alerts is not None and self.socket is not None:
                with contextlib.suppress(OSError):  # it is gone, or does not read
                    self.socket.send(self.alerts.read())
            raise


class AlertingContext(ssl.SSLContext):
    """A server's."""

    sslobject_class = AlertingObject

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As every context's."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, AlertingObject)
        made.alerts, made.socket = outgoing, accepted.get()
        return made
