"""Addresses to listen on and to advertise, from Kafka's `listeners` and `advertised.listeners`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.broker.config.config import BrokerConfig, ConfigInvalid


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_from(text: str) -> Address:
    """The address of "host:port", "[v6]:port", ":port" or "PLAINTEXT://host:port". Raises ConfigInvalid."""
    protocol, separator, rest = text.strip().rpartition("://")
    if separator and protocol.upper() != "PLAINTEXT":
        raise ConfigInvalid(f"listener {text!r}: only PLAINTEXT listeners are supported")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigInvalid(f"address {text!r}: expected HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def listen_addresses(config: BrokerConfig, otherwise: Sequence[str]) -> list[Address]:
    """Where to listen: the config's `listeners` without the controllers' one, else `otherwise`. Raises ConfigInvalid."""
    named = [
        each for each in config.listeners.split(",") if each.strip() and not each.strip().startswith("CONTROLLER:")
    ]
    return [address_from(each) for each in named or otherwise]


def advertised_address(config: BrokerConfig, listening: Sequence[Address]) -> Address:
    """What clients are told to connect to. Raises ConfigInvalid."""
    if config.advertised_listeners:
        return address_from(config.advertised_listeners.split(",")[0])
    host, port = listening[0]
    return Address("localhost" if host in ("", "0.0.0.0", "::") else host, port)  # noqa: S104
