"""How a client proves who it is, from Kafka's options: checked when the client is made, shown nowhere.

Names of both worlds are taken: the Java client's (`sasl.jaas.config`) and librdkafka's (`sasl.username`).
"""

from __future__ import annotations

import logging
from dataclasses import field
from typing import Protocol

from oncelog.client.token_options import TokenConfig, TokenOptions, token_config
from oncelog.core.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasInvalid, jaas_entry
from oncelog.core.login.mechanisms import MECHANISMS
from oncelog.core.scram import HASHES
from oncelog.errors import ConfigurationError
from oncelog.host.key_stores import identity_from, trusted_from
from oncelog.host.tls import (
    VERSIONS,
    TlsContext,
    TlsIdentity,
    TlsInvalid,
    TlsSettings,
    client_context,
    read_public_file,
    read_secret_file,
)
from oncelog.lazy_dataclass import dataclass

log = logging.getLogger("oncelog.client")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
KNOWN = (*MECHANISMS, OAUTHBEARER)
NOT_BUILT = ("GSSAPI",)


class SecurityOptions(TokenOptions, Protocol):
    """The options of a client that say how it logs in."""

    @property
    def security_protocol(self) -> str: ...
    @property
    def sasl_mechanism(self) -> str: ...
    @property
    def sasl_username(self) -> str: ...
    @property
    def sasl_password(self) -> str: ...
    @property
    def sasl_tokenauth(self) -> bool: ...
    @property
    def ssl_endpoint_identification_algorithm(self) -> str: ...
    @property
    def ssl_truststore_location(self) -> str: ...
    @property
    def ssl_truststore_certificates(self) -> str: ...
    @property
    def ssl_truststore_type(self) -> str: ...
    @property
    def ssl_keystore_location(self) -> str: ...
    @property
    def ssl_keystore_key(self) -> str: ...
    @property
    def ssl_keystore_certificate_chain(self) -> str: ...
    @property
    def ssl_keystore_type(self) -> str: ...
    @property
    def ssl_keystore_password(self) -> str: ...
    @property
    def ssl_truststore_password(self) -> str: ...
    @property
    def ssl_key_location(self) -> str: ...
    @property
    def ssl_key_password(self) -> str: ...
    @property
    def ssl_cipher_suites(self) -> str: ...
    @property
    def ssl_enabled_protocols(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A mechanism, and who logs in by it."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    tokens: TokenConfig | None = None  # of OAUTHBEARER
    is_token: bool = False  # a delegation token's id and MAC, with SCRAM


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """What a connection does before its first request; `sasl` None: nothing is proven."""

    protocol: str = "PLAINTEXT"
    sasl: SaslLogin | None = None
    tls: TlsSettings | None = None

    @property
    def user(self) -> str:
        """Whom the broker takes this client for; "" where only the broker knows (a certificate's subject, a token's)."""
        if self.sasl is not None:
            return "" if self.sasl.is_token else self.sasl.user
        return "ANONYMOUS" if self.tls is None or self.tls.identity is None else ""


def security_of(options: SecurityOptions) -> ClientSecurity:
    """Raises ConfigurationError, which names the option and no value that is secret."""
    protocol = options.security_protocol.upper()
    if protocol not in PROTOCOLS:
        raise ConfigurationError(
            f"security_protocol={options.security_protocol}: expected one of {', '.join(PROTOCOLS)}"
        )
    return ClientSecurity(
        protocol,
        _sasl_login(options) if protocol.startswith("SASL_") else None,
        _tls(options) if protocol.endswith("SSL") else None,
    )


def tls_context(settings: TlsSettings) -> TlsContext:
    """What connections speak TLS with. Raises ConfigurationError."""
    try:
        return client_context(settings)
    except TlsInvalid as error:
        raise ConfigurationError(str(error)) from None


def _tls(options: SecurityOptions) -> TlsSettings:
    algorithm = options.ssl_endpoint_identification_algorithm.lower()
    if algorithm not in ("", "https", "none"):
        raise ConfigurationError(f"ssl_endpoint_identification_algorithm={algorithm}: expected https, or nothing")
    if algorithm != "https":
        log.warning(
            "the names in brokers' certificates are not checked: whoever has one that is trusted can be the broker"
        )
    names = [name.strip() for name in options.ssl_enabled_protocols.split(",") if name.strip()]
    if not names or any(name not in VERSIONS for name in names):
        raise ConfigurationError(
            f"ssl_enabled_protocols={options.ssl_enabled_protocols}: expected {', '.join(VERSIONS)}"
        )
    try:
        trusted = options.ssl_truststore_certificates
        if options.ssl_truststore_location and not trusted:
            trusted = trusted_from(
                options.ssl_truststore_location, options.ssl_truststore_type, options.ssl_truststore_password
            )
        return TlsSettings(
            _identity(options),
            trusted.replace("\\n", "\n"),
            options.ssl_truststore_location or "ssl_truststore_certificates",
            checks_host_name=algorithm == "https",
            ciphers=[name.strip() for name in options.ssl_cipher_suites.split(",") if name.strip()],
            versions=names,
        )
    except TlsInvalid as error:
        raise ConfigurationError(str(error)) from None


def _identity(options: SecurityOptions) -> TlsIdentity | None:
    """Java's one file with both, librdkafka's two files, or the texts themselves."""
    key, chain, location = (
        options.ssl_keystore_key,
        options.ssl_keystore_certificate_chain,
        options.ssl_keystore_location,
    )
    if options.ssl_key_location:
        key = read_secret_file(options.ssl_key_location)
        if not chain:
            chain = read_public_file(location) if location else ""
    elif location and not key:
        return identity_from(
            location, options.ssl_keystore_type, options.ssl_keystore_password, options.ssl_key_password
        )
    elif key and not chain:
        raise ConfigurationError("ssl_keystore_key and ssl_keystore_certificate_chain go together")
    if not chain:
        if key:
            raise ConfigurationError("ssl_key_location needs ssl_certificate_location")
        return None
    name = options.ssl_key_location or location or "ssl_keystore_key"
    return TlsIdentity(chain.replace("\\n", "\n"), key.replace("\\n", "\n"), options.ssl_key_password, name)


def _sasl_login(options: SecurityOptions) -> SaslLogin:
    mechanism = options.sasl_mechanism
    if not mechanism:
        raise ConfigurationError(f"sasl_mechanism is not set: expected one of {', '.join(KNOWN)}")
    if mechanism not in KNOWN:
        what = "is not built" if mechanism in NOT_BUILT else "is unknown"
        raise ConfigurationError(f"sasl_mechanism={mechanism} {what}: expected one of {', '.join(KNOWN)}")
    user, password, is_token = options.sasl_username, options.sasl_password, options.sasl_tokenauth
    if is_token and mechanism not in HASHES:
        raise ConfigurationError(f"sasl_tokenauth: delegation tokens are for {', '.join(HASHES)}")
    if mechanism == OAUTHBEARER:
        if user or password:
            raise ConfigurationError("sasl_mechanism=OAUTHBEARER has no sasl_username and sasl_password, but tokens")
        return SaslLogin(mechanism, "", "", token_config(options))
    if options.sasl_jaas_config:
        if user or password:
            raise ConfigurationError("sasl_jaas_config and sasl_username exclude each other")
        user, password, is_token = _of_jaas(options.sasl_jaas_config, mechanism)
    if not user or not password:
        raise ConfigurationError(
            f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config"
        )
    if "\0" in user + password:
        raise ConfigurationError("sasl_username and sasl_password cannot have a NUL character")
    return SaslLogin(mechanism, user, password, is_token=is_token)


def _of_jaas(text: str, mechanism: str) -> tuple[str, str, bool]:
    try:
        entry = jaas_entry(text)
    except JaasInvalid as error:
        raise ConfigurationError(f"sasl_jaas_config: {error}") from None
    expected = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    if entry.module != expected:
        raise ConfigurationError(f"sasl_jaas_config: {mechanism} needs {expected}")
    is_token = entry.options.get("tokenauth", "").lower() == "true"
    if is_token and mechanism not in HASHES:
        raise ConfigurationError(f"sasl_jaas_config: delegation tokens (tokenauth) are for {', '.join(HASHES)}")
    return entry.options.get("username", ""), entry.options.get("password", ""), is_token
