"""The door to the network: listen and connect for `asyncio.Protocol` objects.

Shells speak to transports and protocols only, so the simulated network can stand in for this one unchanged.
`OSError` of the system is translated here into `AddressInUse` and `ConnectFailed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from typing import Protocol as TypingProtocol

from oncelog.host.listening_sockets import BACKLOG, listening_sockets, stop_listening
from oncelog.host.tls import refusal_in, shown_by
from oncelog.host.tls_listener import SHUTDOWN_S, TlsListener, TlsListening
from oncelog.lazy_dataclass import dataclass

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
LOCAL = "unix:"
_OF_ASYNCIO = "Connect call failed ("
_SEVERAL = "Multiple exceptions: "  # what it says where a name has several addresses
_TRIED = re.compile(r"\[Errno (\d+)\] Connect call failed \('([^']*)'[^)]*\)")


class NetworkFailed(Exception):
    """An address could not be listened on or reached; the message is one line for a person."""


class AddressInUse(NetworkFailed):
    """Another process listens there already."""


class ConnectFailed(NetworkFailed):
    """Nobody accepted the connection."""


class PeerRefused(ConnectFailed):
    """TLS came to the conclusion that one end does not believe the other."""


class Listener(TypingProtocol):
    """An open listening address; `port` is the real one where 0 was asked for."""

    @property
    def host(self) -> str:
        """The host listened on."""
        ...

    @property
    def port(self) -> int:
        """The port listened on."""
        ...

    def close(self) -> None:
        """Accept no more; connections that are open stay open."""
        ...


class Network(TypingProtocol):
    """How shells reach one another. A host "unix:PATH" is a socket of this machine's file system, its port is 0.

    `has_shortcut`: a process may hand itself messages without a connection. The simulator's network says no where it
    wants to delay and lose such messages as well.
    """

    @property
    def has_shortcut(self) -> bool:
        """Whether what a process sends to itself need not be sent."""
        ...

    async def listen(
        self, host: str, port: int, protocol_factory: ProtocolFactory, *, tls: TlsListening | None = None
    ) -> Listener:
        """Accept connections on host:port (0 picks a free port), one protocol object for each. Raises NetworkFailed.

        With `tls` a protocol is made when a connection comes, and called when its handshake is over.
        """
        ...

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection to host:port. Raises ConnectFailed, PeerRefused."""
        ...


@dataclass(frozen=True)
class RealListener:
    """A listening socket of this machine."""

    host: str
    port: int
    _servers: tuple[asyncio.Server, ...]

    def close(self) -> None:
        """Accept no more."""
        for each in self._servers:
            stop_listening(each)


class RealNetwork:
    """TCP through the running asyncio (or uvloop) loop; both set TCP_NODELAY themselves."""

    has_shortcut = True

    async def listen(
        self, host: str, port: int, protocol_factory: ProtocolFactory, *, tls: TlsListening | None = None
    ) -> Listener:
        """Accept connections on host:port. Raises AddressInUse or NetworkFailed."""
        if tls is not None:
            return await self._listen_with_tls(host, port, protocol_factory, tls)
        loop = asyncio.get_running_loop()
        if host.startswith(LOCAL):
            return await self._listen_locally(host, protocol_factory)
        try:
            sockets = await listening_sockets(host, port)
        except OSError as error:
            raise _not_listened(host, port, error) from error
        real_port = int(sockets[0].getsockname()[1])
        servers = [await loop.create_server(protocol_factory, sock=each, backlog=BACKLOG) for each in sockets]
        return RealListener(host, real_port, tuple(servers))

    async def _listen_locally(self, host: str, protocol_factory: ProtocolFactory) -> Listener:
        path = host.removeprefix(LOCAL)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(
                    path
                )  # of a process that was killed; whoever lives there holds the lock of its data directory
            server = await asyncio.get_running_loop().create_unix_server(protocol_factory, path, backlog=BACKLOG)
        except OSError as error:
            raise _not_listened(host, 0, error) from error
        return RealListener(host, 0, (server,))

    async def _listen_with_tls(
        self, host: str, port: int, protocol_factory: ProtocolFactory, tls: TlsListening
    ) -> Listener:
        try:
            return await TlsListener.open(host, port, protocol_factory, tls)
        except OSError as error:
            raise _not_listened(host, port, error) from error

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A TCP connection to host:port. Raises ConnectFailed, PeerRefused."""
        loop = asyncio.get_running_loop()
        if host.startswith(LOCAL):
            try:
                return await loop.create_unix_connection(protocol_factory, host.removeprefix(LOCAL))
            except OSError as error:
                raise ConnectFailed(f"cannot connect to {host}: {_reason(error)}") from error
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"ssl": tls, "server_hostname": host, "ssl_shutdown_timeout": SHUTDOWN_S}
        try:
            try:
                transport, protocol = await loop.create_connection(protocol_factory, host, port, **options)
            except RuntimeError:  # while the interpreter ends there are no threads any more to look up names in
                transport, protocol = await _connect_to_any(host, port, protocol_factory, options)
        except ssl.SSLError as error:
            why = refusal_in(error, tls)
            if why:
                raise PeerRefused(f"TLS with {shown_address(host, port)}: {why}") from error
            raise ConnectFailed(
                f"TLS with {shown_address(host, port)} failed: {error.reason or error}; is it spoken there?"
            ) from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no name server can be asked for
            hint = ""
            if tls is not None and isinstance(error, ConnectionResetError):
                shown = shown_by(tls)
                hint = "; is TLS spoken there" + (f", and our certificate ({shown}) believed?" if shown else "?")
            raise ConnectFailed(f"cannot connect to {shown_address(host, port)}: {_reason(error)}{hint}") from error
        return transport, protocol


async def _connect_to_any(
    host: str, port: int, protocol_factory: ProtocolFactory, options: Mapping[str, Any]
) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
    """The loop waits while the name is looked up."""
    found = dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    *others, last = found
    for address in others:
        with contextlib.suppress(OSError):
            return await asyncio.get_running_loop().create_connection(protocol_factory, address, port, **options)
    return await asyncio.get_running_loop().create_connection(protocol_factory, last, port, **options)


def shown_address(host: str, port: int) -> str:
    """As it is typed: an address of IPv6 stands in brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith(LOCAL) else f"{host}:{port}"


def _not_listened(host: str, port: int, error: OSError) -> NetworkFailed:
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(f"{shown_address(host, port)} is in use by another process")
    return NetworkFailed(f"cannot listen on {shown_address(host, port)}: {_reason(error)}")


def _reason(error: OSError | UnicodeError) -> str:
    told = (getattr(error, "strerror", None) or str(error) or type(error).__name__).replace("\n", " ")
    if isinstance(error, OSError) and error.errno is not None and told.startswith(_OF_ASYNCIO):
        return os.strerror(error.errno)  # where it was tried stands beside it already
    return _TRIED.sub(lambda tried: f"{tried[2]}: {os.strerror(int(tried[1]))}", told).removeprefix(_SEVERAL)
