"""Each listener with what holds on it: what it speaks, which mechanisms, whose passwords. Wrong ones are refused at start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.config.addresses import advertised_addresses, controller_addresses, listen_addresses
from oncelog.broker.config.config import (
    LISTENER_PREFIX,
    UNSECURED_KEY,
    BrokerConfig,
    ConfigInvalid,
    in_one_line,
    of_listener,
)
from oncelog.core.access.listeners import (
    ListenerInvalid,
    NamedAddress,
    Protocol,
    controller_names,
    is_loopback,
    openness,
    protocol_map,
    protocol_of,
)
from oncelog.host.tls import has_other_suites
from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from oncelog.broker.config.mechanisms import MechanismConfig
    from oncelog.broker.config.tls_config import TlsConfig


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener."""

    name: str
    host: str
    port: int
    protocol: Protocol
    mechanisms: Mapping[str, MechanismConfig]
    receive_bytes_max: int
    tls: TlsConfig | None

    @property
    def is_plain(self) -> bool:
        """Whether clients need not do anything before they are served."""
        return self.protocol is Protocol.PLAINTEXT


def listeners_of(config: BrokerConfig, otherwise: Sequence[str]) -> list[ListenerConfig]:
    """Every listener there is to be. Raises ConfigInvalid, naming the key and no value that is secret."""
    found: list[ListenerConfig] = []
    faults: list[str] = []
    for _, listener in each_listener(config, otherwise):
        try:
            if isinstance(listener, ConfigInvalid):
                raise listener
            _check_openness(config, listener)
            found.append(listener)
        except ConfigInvalid as error:
            faults.append(str(error))
    if faults:
        raise ConfigInvalid(in_one_line(list(dict.fromkeys(faults))))
    return found


def each_listener(
    config: BrokerConfig, otherwise: Sequence[str]
) -> Iterator[tuple[NamedAddress, ListenerConfig | ConfigInvalid]]:
    """Every address with its listener, or why there can be none; how open it is is not asked. Raises ConfigInvalid."""
    addresses = listen_addresses(config, otherwise)
    protocols = _protocols(config)
    names = [each.name for each in addresses]
    stranger = next((each.name for each in advertised_addresses(config) if each.name not in names), None)
    if stranger is not None:
        raise ConfigInvalid(f"advertised.listeners: there is no listener {stranger}")
    for address in addresses:
        try:
            yield address, _listener(config, address, protocols)
        except ConfigInvalid as error:
            yield address, error


def warnings_of(listeners: Sequence[ListenerConfig], config: BrokerConfig) -> list[str]:
    """What an operator should know before others find it out."""
    found = [
        f"listener {each.name} on {each.host or '*'}:{each.port} is not opened: it is for controllers, and oncelog has none"
        for each in controller_addresses(config)
    ]
    for each in listeners:
        if takes_unsigned_tokens(each):
            found.append(
                f"listener {each.name} takes unsigned tokens ({UNSECURED_KEY}): whoever reaches it is who it says"
            )
        if each.tls is not None and has_other_suites(each.tls.settings):
            found.append(
                f"listener {each.name}: TLS 1.3 is spoken with all its suites, whatever ssl.cipher.suites says; "
                "ssl.enabled.protocols=TLSv1.2 leaves it out"
            )
        if is_loopback(each.host):
            continue
        why = openness_of(each)
        if why:
            found.append(f"listener {each.name} on {each.host or '*'}:{each.port} {why}")
        elif each.protocol is Protocol.SASL_PLAINTEXT:
            found.append(f"listener {each.name} on {each.host or '*'}:{each.port} sends all in clear but the passwords")
    if not config.authorizer_class_name and any(not each.is_plain for each in listeners):
        found.append("there is no authorizer (authorizer.class.name): whoever comes in may do everything")
    for key in keys_of_no_listener(config, [each.name for each in listeners]):
        found.append(f"{key} is for a listener that is not there: it has no effect")
    return found


def keys_of_no_listener(config: BrokerConfig, names: Iterable[str]) -> list[str]:
    """The `listener.name.*` keys that no listener of these names, and no controller's, takes: mostly a name mistyped."""
    controllers = controller_names(config.controller_listener_names)
    own = tuple(f"{LISTENER_PREFIX}{name.lower()}." for name in (*names, *controllers))
    return [key for key in config.listener_overrides if not key.startswith(own)]


def openness_of(listener: ListenerConfig) -> str:
    """Why nobody but this machine should reach it; "" where clients show who they are and nothing leaks."""
    needs_certificate = listener.tls is not None and listener.tls.settings.client_certificate == "required"
    return openness(listener.protocol, mechanisms=listener.mechanisms, needs_certificate=needs_certificate)


def takes_unsigned_tokens(listener: ListenerConfig) -> bool:
    """Whether whoever reaches it is who it says."""
    return any(each.bearer is not None and each.bearer.keys is None for each in listener.mechanisms.values())


def _check_openness(config: BrokerConfig, listener: ListenerConfig) -> None:
    if takes_unsigned_tokens(listener) and not is_loopback(listener.host):
        where = f"listener {listener.name} on {listener.host or '*'}:{listener.port}"
        raise ConfigInvalid(
            f"{where}: {UNSECURED_KEY} is for listeners on 127.0.0.1: whoever reaches it could be anybody"
        )
    why = openness_of(listener)
    if why and not is_loopback(listener.host) and not config.oncelog_insecure_listeners:
        where = f"listener {listener.name} on {listener.host or '*'}:{listener.port}"
        raise ConfigInvalid(
            f"{where} {why}; make it SASL_SSL, or SSL with ssl.client.auth=required (docs/security.md), listen on 127.0.0.1, "
            "or allow it with oncelog.insecure.listeners=true (oncelog serve: --insecure)"
        )


def _protocols(config: BrokerConfig) -> dict[str, Protocol]:
    try:
        return protocol_map(config.listener_security_protocol_map)
    except ListenerInvalid as error:
        raise ConfigInvalid(f"listener.security.protocol.map: {error}") from error


def _listener(config: BrokerConfig, address: NamedAddress, protocols: Mapping[str, Protocol]) -> ListenerConfig:
    try:
        protocol = protocol_of(address.name, protocols)
    except ListenerInvalid as error:
        raise ConfigInvalid(str(error)) from error
    mechanisms: Mapping[str, MechanismConfig] = {}
    tls: TlsConfig | None = None
    if protocol.has_sasl:  # imported where it is wanted: a plain broker starts without it
        from oncelog.broker.config.mechanisms import mechanisms_of

        mechanisms = mechanisms_of(config, address.name)
    if protocol.has_tls:
        from oncelog.broker.config.tls_config import tls_config

        tls = tls_config(config, address.name, has_sasl=protocol.has_sasl)
    receive_bytes_max = of_listener(
        config, address.name, "sasl.server.max.receive.size", config.sasl_server_max_receive_size
    )
    return ListenerConfig(address.name, address.host, address.port, protocol, mechanisms, receive_bytes_max, tls)
