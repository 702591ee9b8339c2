"""A test broker's certificates and users, made in one call; what a client needs to come in as one of them.

Certificates need `cryptography`, tokens `joserfc` (the extra `security`). Everything lies in
a temporary directory that ends with the broker.
"""

from __future__ import annotations

import secrets
import tempfile
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from oncelog.broker.broker import Broker
from oncelog.client.arguments import is_wire_text, shown
from oncelog.core.jaas import JaasInvalid, jaas_entry
from oncelog.core.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512, credential, upsertion_of
from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.host.certificate_authority import Authority
from oncelog.testing.issuer import TestIssuer

SECURITIES = ("SSL", "mTLS", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = {"PLAIN": 0, "OAUTHBEARER": 0, "SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
COMMON_NAME_LENGTH_MAX = 64  # X.520's bound of a common name
ESCAPED_IN_SUBJECTS = frozenset(',=+"\\<>;')  # RFC 2253
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class TestSecurity:
    """What one secured broker and its clients have. `users` maps names to passwords; with mTLS only names count."""

    __test__ = False

    def __init__(self, security: str, mechanism: str, users: Mapping[str, str] | None) -> None:
        if security not in SECURITIES:
            raise ConfigurationError(f"security={security!r}: expected one of {', '.join(SECURITIES)}")
        if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
            raise ConfigurationError(f"mechanism={mechanism!r}: expected one of {', '.join(MECHANISMS)}")
        self._security = security
        self._mechanism = mechanism
        self.users = {"alice": secrets.token_urlsafe(16)} if users is None else _checked_users(users)
        for name in self.users:
            self._check_name(name)
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

    def _check_name(self, name: str) -> None:
        """What carries a name has rules of its own: a certificate's subject, a line of JAAS."""
        if self._security == "mTLS":
            is_cut = len(name) > COMMON_NAME_LENGTH_MAX or name != name.strip() or name.startswith("#")
            if is_cut or not ESCAPED_IN_SUBJECTS.isdisjoint(name):
                raise _refusal(
                    f"users: with mTLS the name {shown(name)}",
                    f"of at most {COMMON_NAME_LENGTH_MAX} characters, none of {' '.join(sorted(ESCAPED_IN_SUBJECTS))}",
                    "a certificate's subject has others only escaped, and the broker would see another name",
                )
        elif self._security.startswith("SASL") and self._mechanism == "PLAIN":
            with suppress(JaasInvalid):
                if list(jaas_entry(f"{_PLAIN_MODULE} required user_{_quoted(name)}=x;").options) == [f"user_{name}"]:
                    return
            raise _refusal(
                f"users: with mechanism=PLAIN the name {shown(name)}",
                "a word of a JAAS line, without spaces, quotes, = and ;",
                "take SCRAM-SHA-256",
            )

    def _user(self, user: str | None) -> str:
        """A name that the broker knows; None: the first one's."""
        if user is None:
            return next(iter(self.users))
        if not isinstance(user, str) or user not in self.users:
            names = ", ".join(self.users)
            raise InvalidArgument(
                f"user: there is no {shown(user)}; there are {names} (TestBroker(users=...) names them)"
            )
        return user

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
        name = self._user(user)
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self._authority is not None:
            options["ssl_ca_location"] = self.authority_file
        if self._security == "mTLS":
            assert self._authority is not None
            certificate = self._authority.sign(name)
            options["ssl_certificate_location"] = certificate.write(
                self._directory.name, f"client-{list(self.users).index(name)}"
            )  # not by the name: a file's may not have every character
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
        return self._issuer.token(self._user(user))

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


def _checked_users(users: Any) -> dict[str, str]:
    """Names to passwords. Raises InvalidArgument, which shows no password."""
    if not isinstance(users, Mapping):
        raise InvalidArgument(
            f"users must be a mapping of names to passwords, not a {type(users).__name__}: users={{'alice': 'secret'}}"
        )
    if not users:
        raise InvalidArgument("users is empty: name one at least, or leave it out for alice")
    for name, password in users.items():
        if not isinstance(name, str) or not name or not _is_clean(name):
            raise _refusal(f"users: the name {shown(name)}", "text, not empty, without control characters")
        if not isinstance(password, str) or not password or "\0" in password or not is_wire_text(password):
            what = f"a {type(password).__name__}" if not isinstance(password, str) else "another text"
            raise _refusal(f"users: the password of {shown(name)}", f"text, not empty, without NUL (it is {what})")
    return dict(users)


def _is_clean(text: str) -> bool:
    return is_wire_text(text) and not any(unicodedata.category(each) == "Cc" for each in text)


def _refusal(what: str, must_be: str, hint: str = "") -> InvalidArgument:
    """The error of a name or password."""
    return InvalidArgument(f"{what} must be {must_be}" + (f": {hint}" if hint else ""))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
