"""What holds on one listener while it runs: new conversations for new connections, and whose credentials still exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.config.listeners import PLAIN, ListenerConfig, MechanismConfig
from oncelog.broker.network.strangers import Failures, Strangers
from oncelog.broker.requests.audit import Audit
from oncelog.core.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512
from oncelog.core.sasl.connection import Mechanism, SaslConnection
from oncelog.core.sasl.exchange import Exchange
from oncelog.core.sasl.plain import PlainExchange
from oncelog.core.sasl.scram_exchange import USUAL_ITERATION_COUNT, ScramExchange
from oncelog.core.scram import base64_text
from oncelog.host.randomness import Random
from oncelog.wire.log_records.cluster_metadata import ScramCredentialRecord

NUMBERS = {"SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
NONCE_SIZE_BYTES = 24

Credentials = Mapping[tuple[str, int], ScramCredentialRecord]


class SecurityOwner(Protocol):
    """What connections that authenticate share."""

    strangers: Strangers
    failures: Failures
    audit: Audit


class ListenerSecurity:
    """One listener. `secret` draws the salts of users that there are not."""

    def __init__(
        self,
        config: ListenerConfig,
        broker: Callable[[], BrokerConfig],
        credentials: Credentials,
        random: Random,
        secret: bytes,
    ) -> None:
        self.config = config
        self._broker = broker
        self._credentials = credentials
        self._random = random
        self._secret = secret
        self._mechanisms = {
            name: Mechanism(partial(self._begin, name, each), each.session_ms)
            for name, each in config.mechanisms.items()
        }

    @property
    def timeout_s(self) -> float:
        """How long a connection may take to authenticate."""
        return self._broker().oncelog_authentication_timeout_ms / 1000

    @property
    def failure_delay_s(self) -> float:
        """For how long a failed authentication is not answered."""
        return self._broker().connection_failed_authentication_delay_ms / 1000

    def new_sasl(self) -> SaslConnection:
        """For a new connection."""
        return SaslConnection(self._mechanisms)

    def has_user(self, mechanism: str, user: str) -> bool:
        """Whether a user who has logged in could still."""
        number = NUMBERS.get(mechanism)
        return number is None or (user, number) in self._credentials

    def _begin(self, name: str, mechanism: MechanismConfig) -> Exchange:
        if name == PLAIN:
            return PlainExchange(mechanism.digests)
        number = NUMBERS[name]
        usual = next((each.iterations for each in self._credentials.values()), USUAL_ITERATION_COUNT)
        return ScramExchange(
            name,
            lambda user: self._credentials.get((user, number)),
            nonce=base64_text(self._random.token_bytes(NONCE_SIZE_BYTES)),
            secret=self._secret,
            usual_iterations=usual,
        )
