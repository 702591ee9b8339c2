"""A test broker's certificates and users, made in one call; what a client needs to come in as one of them.

Certificates need `cryptography`, tokens `joserfc` (the extra `security`). Everything lies in
a temporary directory that ends with the broker.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from oncelog.broker.broker import Broker
from oncelog.core.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512, credential, upsertion_of
from oncelog.errors import ConfigurationError
from oncelog.host.certificate_authority import Authority
from oncelog.testing.issuer import TestIssuer

SECURITIES = ("SSL", "mTLS", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = {"PLAIN": 0, "OAUTHBEARER": 0, "SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class TestSecurity:
    """What one secured broker and its clients have. `users` maps names to passwords; with mTLS only names count."""

    __test__ = False

    def __init__(self, security: str, mechanism: str, users: Mapping[str, str] | None) -> None:
        if security not in SECURITIES:
            raise ConfigurationError(f"security={security!r}: expected one of {', '.join(SECURITIES)}")
        if mechanism not in MECHANISMS:
            raise ConfigurationError(f"mechanism={mechanism!r}: expected one of {', '.join(MECHANISMS)}")
        self._security = security
        self._mechanism = mechanism
        self.users = dict(users or {"alice": secrets.token_urlsafe(16)})
        self._directory = tempfile.TemporaryDirectory(prefix="oncelog-security-")
        self._authority: Authority | None = None
        self.protocol = "SSL" if security == "mTLS" else security
        self._issuer = TestIssuer(self._directory.name) if mechanism == "OAUTHBEARER" and self._has_sasl else None
        if self.protocol.endswith("SSL"):
            self._authority = Authority()
            self.authority_file = str(Path(self._directory.name) / "ca.pem")
            Path(self.authority_file).write_text(self._authority.pem, encoding="ascii")

    @property
    def _has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def broker_config(self) -> dict[str, str]:
        """Of the broker, by Kafka's keys."""
        config = {"listeners": f"{self.protocol}://127.0.0.1:0", "connection.failed.authentication.delay.ms": "0"}
        if self._authority is not None:
            broker = self._authority.sign("broker", ["localhost", "127.0.0.1"])
            config |= {
                "ssl.keystore.location": broker.write(self._directory.name, "broker"),
                "ssl.truststore.location": self.authority_file,
                "ssl.client.auth": "required" if self._security == "mTLS" else "none",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            }
        if self._has_sasl:
            config["sasl.enabled.mechanisms"] = self._mechanism
        if self._issuer is not None:
            config["sasl.oauthbearer.jwks.endpoint.url"] = f"file:{self._issuer.keys_file}"
        if self._has_sasl and self._mechanism == "PLAIN":
            users = " ".join(f'user_{_quoted(user)}="{_quoted(word)}"' for user, word in self.users.items())
            prefix = f"listener.name.{self.protocol.lower()}.plain"
            config[f"{prefix}.sasl.jaas.config"] = f"{_PLAIN_MODULE} required {users};"
        return config

    def client_options(self, user: str | None = None) -> dict[str, Any]:
        """Of a client that comes in as `user` (else the first one); with dots for `_` they are librdkafka's."""
        name = next(iter(self.users)) if user is None else user
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self._authority is not None:
            options["ssl_ca_location"] = self.authority_file
        if self._security == "mTLS":
            assert self._authority is not None
            certificate = self._authority.sign(name)
            options["ssl_certificate_location"] = certificate.write(self._directory.name, f"client-{len(name)}-{name}")
            options["ssl_key_location"] = options["ssl_certificate_location"]
        if self._issuer is not None:
            options |= {
                "sasl_mechanism": self._mechanism,
                "sasl_oauth_token_provider": partial(self._issuer.token, name),
            }
        elif self._has_sasl:
            options |= {"sasl_mechanism": self._mechanism, "sasl_username": name, "sasl_password": self.users[name]}
        return options

    def token(self, user: str | None = None) -> str:
        """A token of `user` (else the first one), for clients that are not ours. Raises ConfigurationError."""
        if self._issuer is None:
            raise ConfigurationError("there are tokens with mechanism=OAUTHBEARER")
        return self._issuer.token(next(iter(self.users)) if user is None else user)

    async def add_users(self, broker: Broker) -> None:
        """Store what SCRAM proves passwords with."""
        number = MECHANISMS[self._mechanism]
        if not self._has_sasl or not number:
            return
        records = []
        for user, password in self.users.items():
            records.append(credential(upsertion_of(user, number, password, salt=secrets.token_bytes(24))))
        async with broker.store.changing():
            await broker.store.append(records)

    def close(self) -> None:
        """Remove the files."""
        self._directory.cleanup()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
