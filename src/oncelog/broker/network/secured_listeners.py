"""The listeners whose clients say who they are, or shake hands. Imported with the first one: a plain broker needs none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.config.listeners import ListenerConfig
from oncelog.broker.network.bearer_tokens import BearerTokens
from oncelog.broker.network.certified_connection import CertifiedConnection, CertifiedOwner
from oncelog.broker.network.connection import Connection
from oncelog.broker.network.connection_limits import limits_of
from oncelog.broker.network.listener_security import Credentials, ListenerSecurity
from oncelog.broker.network.secured_connection import SecuredConnection, SecuredOwner
from oncelog.broker.network.tls_handshakes import TlsHandshakes
from oncelog.broker.network.token_keyring import TokenKeyring
from oncelog.host.network import Listener, Network
from oncelog.host.randomness import Random
from oncelog.wire.log_records.cluster_metadata import DelegationTokenRecord


class SecuredListenersOwner(SecuredOwner, CertifiedOwner, Protocol):
    """What they ask of their server."""

    def next_connection_id(self) -> int:
        """Of a connection that comes now."""
        ...


class SecuredListeners:
    """All of one server. `secret` draws the salts of users that there are not."""

    def __init__(
        self,
        server: SecuredListenersOwner,
        network: Network,
        config: Callable[[], BrokerConfig],
        credentials: Credentials,
        tokens: Mapping[str, DelegationTokenRecord],
        random: Random,
        secret: bytes,
        now_ms: Callable[[], int],
    ) -> None:
        self._server = server
        self._network = network
        self._config = config
        self._credentials = credentials
        self._token_keys = TokenKeyring(tokens, config, now_ms)
        self._random = random
        self._secret = secret
        self._now_ms = now_ms
        self._tls: list[TlsHandshakes] = []
        self._bearer_tokens: list[BearerTokens] = []

    @property
    def has_tls(self) -> bool:
        """Whether a listener speaks TLS."""
        return bool(self._tls)

    async def listen(self, config: ListenerConfig) -> Listener:
        """Open a listening address. Raises NetworkFailed, ConfigInvalid."""
        server = self._server
        security = self._security_of(config)
        kind = SecuredConnection if config.protocol.has_sasl else CertifiedConnection
        new_connection = partial(self._new_connection, kind, security)
        if config.tls is None:
            return await self._network.listen(config.host, config.port, new_connection)
        tls = TlsHandshakes(security, server, server.metrics, server.tasks)
        self._tls.append(tls)
        return await self._network.listen(config.host, config.port, new_connection, tls=tls)

    def reload_tls(self) -> None:
        """Take over what files and configuration say now."""
        for tls in self._tls:
            tls.reload()

    def _security_of(self, config: ListenerConfig) -> ListenerSecurity:
        def now_s() -> float:
            return self._now_ms() / 1000

        bearer = next((each.bearer for each in config.mechanisms.values() if each.bearer is not None), None)
        tokens = None
        if bearer is not None:
            tokens = BearerTokens(bearer, self._network, self._random, self._server.metrics, now_s)
            tokens.check()
            self._bearer_tokens.append(tokens)
            self._server.tasks.start(tokens.run(), name=f"keys-{config.name}")
        return ListenerSecurity(
            config, self._config, self._credentials, self._random, self._secret, now_s, self._token_keys, tokens
        )

    def _new_connection(
        self, kind: type[SecuredConnection | CertifiedConnection], security: ListenerSecurity
    ) -> Connection:
        return kind(self._server, self._server.next_connection_id(), limits_of(self._config()), security)
