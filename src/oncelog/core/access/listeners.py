"""Listeners as Kafka writes them: names, what each name speaks, where each listens and is reached."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from enum import Enum

from oncelog.lazy_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
CONTROLLER = "CONTROLLER"


class ListenerInvalid(ValueError):
    """A listener that cannot be; the message is one line for the person who wrote it."""


class Protocol(Enum):
    """Kafka's security protocols: (is TLS spoken, is SASL spoken)."""

    PLAINTEXT = (False, False)
    SSL = (True, False)
    SASL_PLAINTEXT = (False, True)
    SASL_SSL = (True, True)

    @property
    def has_tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self.value[0]

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.value[1]


DEFAULT_MAP = ",".join(f"{each.name}:{each.name}" for each in Protocol)


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """A listener's name, and a host and port."""

    name: str
    host: str
    port: int


def named_addresses(text: str) -> list[NamedAddress]:
    """`listeners` or `advertised.listeners`, those of controllers (`controller_names`) too. Raises ListenerInvalid."""
    found = [named_address(part) for part in text.split(",") if part.strip()]
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ListenerInvalid(f"listener {twice}: the name stands there twice")
    return found


def controller_names(text: str) -> frozenset[str]:
    """The listeners' names in `controller.listener.names`: they are for a quorum's nodes, and clients do not come there. Where
    it is not set, the name that Apache Kafka's own files give them."""
    return frozenset(name.strip().upper() for name in text.split(",") if name.strip()) or frozenset((CONTROLLER,))


def named_address(text: str) -> NamedAddress:
    """NAME://HOST:PORT, or HOST:PORT of a PLAINTEXT listener. Raises ListenerInvalid."""
    name, separator, rest = text.strip().rpartition("://")
    if separator and not _NAME.fullmatch(name):
        raise ListenerInvalid(f"listener {text[:80]!r}: expected NAME://HOST:PORT")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ListenerInvalid(f"address {text[:80]!r}: expected HOST:PORT, with a port from 0 to 65535")
    if host.startswith("[") is not host.endswith("]"):
        raise ListenerInvalid(f"address {text[:80]!r}: a bracket is missing: expected [HOST]:PORT, or HOST:PORT")
    return NamedAddress(name.upper() or "PLAINTEXT", host.removeprefix("[").removesuffix("]"), int(port))


def protocol_map(text: str) -> dict[str, Protocol]:
    """`listener.security.protocol.map`: NAME:PROTOCOL,... Raises ListenerInvalid."""
    found: dict[str, Protocol] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, colon, protocol = (piece.strip() for piece in part.partition(":"))
        if not colon or not _NAME.fullmatch(name):
            raise ListenerInvalid(f"{part.strip()[:80]!r}: expected NAME:PROTOCOL")
        known = Protocol.__members__.get(protocol.upper())
        if known is None:
            raise ListenerInvalid(f"{protocol[:80]!r} is none of {', '.join(Protocol.__members__)}")
        if name.upper() in found:
            raise ListenerInvalid(f"{name}: the name stands there twice")
        found[name.upper()] = known
    return found


def protocol_of(name: str, protocols: Mapping[str, Protocol]) -> Protocol:
    """What a listener speaks. Raises ListenerInvalid."""
    found = protocols.get(name)
    if found is None:
        raise ListenerInvalid(f"listener {name}: listener.security.protocol.map does not say what it speaks")
    return found


def openness(protocol: Protocol, *, mechanisms: Collection[str], needs_certificate: bool) -> str:
    """Why nobody but this machine should reach a listener; "" where clients show who they are and nothing leaks."""
    if protocol is Protocol.PLAINTEXT:
        return "lets everybody in, and sends all in clear"
    if protocol is Protocol.SSL and not needs_certificate:
        return "lets everybody in: ssl.client.auth is not required"
    if protocol is Protocol.SASL_PLAINTEXT and "PLAIN" in mechanisms:
        return "sends passwords in clear (PLAIN without TLS)"
    if protocol is Protocol.SASL_PLAINTEXT and "OAUTHBEARER" in mechanisms:
        return "sends tokens in clear (OAUTHBEARER without TLS)"
    return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name other than localhost is taken for one that others reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
