"""A connection of an SSL listener: the certificate that the client showed says who it is; without one it is nobody."""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncelog.broker.network.connection import Connection, ConnectionOwner
from oncelog.broker.network.connection_limits import ConnectionLimits
from oncelog.broker.network.listener_security import ListenerSecurity, SecurityOwner
from oncelog.core.access.certificate import CertificateInvalid
from oncelog.core.access.principal_mapping import NoRuleFits
from oncelog.host.tls import peer_certificate, tls_version


class CertifiedOwner(ConnectionOwner, SecurityOwner, Protocol):
    """What it asks of its server."""


class CertifiedConnection(Connection):
    """The server's end of a connection to an SSL listener, whose handshake is over."""

    def __init__(
        self, server: CertifiedOwner, connection_id: int, limits: ConnectionLimits, listener: ListenerSecurity
    ) -> None:
        super().__init__(server, connection_id, limits)
        self._security: CertifiedOwner = server
        self._listener = listener
        self.listener_name = listener.config.name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, and see who it is."""
        super().connection_made(transport)
        if self._transport is None:
            return
        ssl_object = transport.get_extra_info("ssl_object")
        what = {"listener": self.listener_name, "tls": tls_version(ssl_object)}
        certificate = peer_certificate(ssl_object)
        try:
            self.principal = self._listener.certified_principal(certificate)
        except (CertificateInvalid, NoRuleFits) as error:
            self._server.metrics.add("authentications_failed")
            self._security.audit.failed("login failed", self.client_host, reason=str(error), **what)
            self.refuse(str(error))
            return
        if certificate is not None:
            self._server.metrics.add("authentications")
            self._security.audit.said("login", self.client_host, principal=self.principal, **what)
