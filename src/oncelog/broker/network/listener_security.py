"""What holds on one listener while it runs: new conversations for new connections, and whose credentials still exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from oncelog.broker.config.bearer_config import OAUTHBEARER
from oncelog.broker.config.config import BrokerConfig, ConfigInvalid
from oncelog.broker.config.listeners import ListenerConfig
from oncelog.broker.config.mechanisms import PLAIN, MechanismConfig
from oncelog.broker.config.tls_config import TlsConfig, stores_beside, tls_config
from oncelog.broker.network.bearer_tokens import BearerTokens
from oncelog.broker.network.strangers import Failures, Strangers
from oncelog.broker.network.token_keyring import TokenKeyring
from oncelog.broker.requests.audit import Audit
from oncelog.broker.requests.request import ANONYMOUS
from oncelog.core.access.certificate import CertificateInvalid, subject_of, validity_of
from oncelog.core.access.principal_mapping import NoRuleFits, principal_name
from oncelog.core.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512
from oncelog.core.sasl.connection import Mechanism, SaslConnection
from oncelog.core.sasl.exchange import Exchange
from oncelog.core.sasl.oauthbearer import BearerExchange
from oncelog.core.sasl.plain import PlainExchange
from oncelog.core.sasl.scram_exchange import USUAL_ITERATION_COUNT, ScramExchange
from oncelog.core.scram import base64_text
from oncelog.host.randomness import Random
from oncelog.host.tls import TlsContext, TlsInvalid, TlsSettings, certificates_of, server_context
from oncelog.wire.log_records.cluster_metadata import ScramCredentialRecord

NUMBERS = {"SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
NONCE_SIZE_BYTES = 24

Credentials = Mapping[tuple[str, int], ScramCredentialRecord]


class SecurityOwner(Protocol):
    """What connections that authenticate share."""

    strangers: Strangers
    failures: Failures
    audit: Audit


_RENEWED = "`oncelog secure DIRECTORY --renew` where that made it, else put a new one of whoever signs it in its place"


def check_validity(settings: TlsSettings, now_s: float) -> None:
    """Raises TlsInvalid for a certificate of our own that does not hold now."""
    identity = settings.identity
    assert identity is not None
    own = certificates_of(f"{identity.chain}\n{identity.key}")
    if not own:
        raise TlsInvalid(f"{identity.name}: there is no certificate")
    try:
        begins_s, ends_s = validity_of(own[0])
    except CertificateInvalid as error:
        raise TlsInvalid(f"{identity.name}: {error}") from error
    if now_s < begins_s:
        raise TlsInvalid(f"{identity.name}: the certificate does not hold yet")
    if now_s > ends_s:
        raise TlsInvalid(f"{identity.name}: the certificate has expired: {_RENEWED}")


class ListenerSecurity:
    """One listener. `secret` draws the salts of users that there are not."""

    def __init__(
        self,
        config: ListenerConfig,
        broker: Callable[[], BrokerConfig],
        credentials: Credentials,
        random: Random,
        secret: bytes,
        now_s: Callable[[], float],
        token_keys: TokenKeyring,
        tokens: BearerTokens | None = None,
    ) -> None:
        self._now_s = now_s  # the wall's clock
        self.config = config
        self._broker = broker
        self._credentials = credentials
        self._random = random
        self._secret = secret
        self._token_keys = token_keys
        self._tokens = tokens  # of OAUTHBEARER
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

    def new_tls_context(self) -> TlsContext:
        """What the listener speaks TLS with. Raises ConfigInvalid."""
        tls = self.config.tls
        assert tls is not None
        try:
            check_validity(tls.settings, self._now_s())
            return server_context(tls.settings)
        except TlsInvalid as error:
            raise ConfigInvalid(f"listener {self.config.name}: {error}") from None

    def read_tls_again(self) -> None:
        """See what files and configuration say now; where it is the same, `config.tls` stays the same object.

        Raises ConfigInvalid.
        """
        config = self.config
        now = tls_config(self._broker(), config.name, has_sasl=config.protocol.has_sasl)
        if now != config.tls:
            self.keep_tls(now)

    def waiting_stores(self) -> dict[str, object]:
        """What was put where keys and certificates come from, can be read, and is not in force; by its key."""
        assert self.config.tls is not None
        return stores_beside(self.config.tls.settings, self._broker(), self.config.name)

    def keep_tls(self, tls: TlsConfig | None) -> None:
        """This is what holds for connections that come from now on."""
        self.config = replace(self.config, tls=tls)

    def certified_principal(self, certificate: bytes | None) -> str:
        """The principal of who showed a certificate, DER. Raises CertificateInvalid, NoRuleFits."""
        assert self.config.tls is not None
        if certificate is None:
            return ANONYMOUS
        principal = f"User:{principal_name(subject_of(certificate), self.config.tls.rules)}"
        if principal == ANONYMOUS:  # the name of who shows none
            raise NoRuleFits("the certificate's name is ANONYMOUS")
        return principal

    def why_revoked(self, session: SaslConnection) -> str | None:
        """Why who has logged in could not any more by the same token or password; None where it could."""
        if session.token_id:
            return None if self._token_keys.holds(session.token_id) else "the token is gone"
        number = NUMBERS.get(session.mechanism)
        if number is None:
            return None
        kept = self._credentials.get((session.user, number))
        if kept is None:
            return "credentials deleted"
        # Both are the broker's own: whoever waits for the answer learns nothing from how long it takes.
        return None if kept.stored_key == session.stored_key else "the password was changed"

    def _begin(self, name: str, mechanism: MechanismConfig) -> Exchange:
        if name == PLAIN:
            return PlainExchange(mechanism.digests)
        if name == OAUTHBEARER:
            assert self._tokens is not None
            return BearerExchange(self._tokens.verify)
        number = NUMBERS[name]
        usual = next((each.iterations for each in self._credentials.values()), USUAL_ITERATION_COUNT)
        return ScramExchange(
            name,
            lambda user: self._credentials.get((user, number)),
            lambda token_id, salt: self._token_keys.keys(name, token_id, salt),
            nonce=base64_text(self._random.token_bytes(NONCE_SIZE_BYTES)),
            secret=self._secret,
            usual_iterations=usual,
        )
