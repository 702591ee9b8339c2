"""Addresses to listen on and to advertise, from Kafka's `listeners` and `advertised.listeners`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from oncelog.broker.config.config import BrokerConfig, ConfigInvalid
from oncelog.core.access.listeners import (
    ListenerInvalid,
    NamedAddress,
    controller_names,
    named_address,
    named_addresses,
)

EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104


def is_everywhere(host: str) -> bool:
    """Whether it stands for all of this machine's addresses, however it is written; "" is left to who asks."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_from(text: str, key: str = "") -> Address:
    """The address of "host:port", "[v6]:port", ":port" or "PLAINTEXT://host:port". Raises ConfigInvalid, which names `key`."""
    where = f"{key}: " if key else ""
    try:
        found = _named(text)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{where}{error}") from error
    if found.name != "PLAINTEXT":
        raise ConfigInvalid(f"{where}address {text[:80]!r}: expected HOST:PORT, with a port from 0 to 65535")
    return Address(found.host, found.port)


def _named(text: str) -> NamedAddress:
    try:
        return named_address(text)
    except ListenerInvalid as error:
        raise ConfigInvalid(str(error)) from error


def listen_addresses(config: BrokerConfig, otherwise: Sequence[str]) -> list[NamedAddress]:
    """Where to listen: the config's `listeners` without those of controllers, else `otherwise`. Raises ConfigInvalid."""
    try:
        given = named_addresses(config.listeners)
        if not given:
            return _each_once([named_address(each) for each in otherwise])
    except ListenerInvalid as error:
        raise ConfigInvalid(f"listeners: {error}") from error
    controllers = controller_names(config.controller_listener_names)
    found = [each for each in given if each.name not in controllers]
    if not found:
        raise ConfigInvalid(
            f"listeners: {config.listeners[:80]} are for controllers (controller.listener.names), and oncelog needs none: "
            "name one for clients, as the file of a broker does"
        )
    _check_ports(found)
    return found


def _each_once(listening: list[NamedAddress]) -> list[NamedAddress]:
    for number, each in enumerate(listening):
        if each.port and each in listening[:number]:
            raise ConfigInvalid(f"listen: {Address(each.host, each.port)}: the address stands there twice")
    return listening


def _check_ports(listening: Sequence[NamedAddress]) -> None:
    at: dict[tuple[str, int], str] = {}
    for each in listening:
        other = at.setdefault((each.host, each.port), each.name)
        if other != each.name and each.port:
            raise ConfigInvalid(f"listeners: {other} and {each.name} have the same port {each.port}")


def controller_addresses(config: BrokerConfig) -> list[NamedAddress]:
    """What of the config's `listeners` is left out, as it is for controllers. Raises ConfigInvalid."""
    left = {each.name for each in listen_addresses(config, ())}
    return [each for each in named_addresses(config.listeners) if each.name not in left]


def advertised_address(config: BrokerConfig, listening: Sequence[NamedAddress], name: str = "") -> Address:
    """What clients that came by the listener `name` (else the first) are told to connect to. Raises ConfigInvalid."""
    own = next((each for each in listening if each.name == name), listening[0])
    host = "localhost" if own.host in EVERYWHERE else own.host
    if config.advertised_listeners:
        for told in advertised_addresses(config):
            if told.name == own.name:
                return Address(told.host or host, told.port)
    return Address(host, own.port)


def advertised_addresses(config: BrokerConfig) -> list[NamedAddress]:
    """What `advertised.listeners` says. Raises ConfigInvalid."""
    controllers = controller_names(config.controller_listener_names)
    try:
        found = [each for each in named_addresses(config.advertised_listeners) if each.name not in controllers]
    except ListenerInvalid as error:
        raise ConfigInvalid(f"advertised.listeners: {error}") from error
    for each in found:
        if is_everywhere(each.host):
            raise ConfigInvalid(
                f"advertised.listeners: {each.name}://{each.host}:{each.port} is no address that a client can connect to: "
                "name this host as they do"
            )
    return found
