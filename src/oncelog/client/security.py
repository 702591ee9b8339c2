"""How a client proves who it is, from Kafka's options: checked when the client is made, shown nowhere.

Names of both worlds are taken: the Java client's (`sasl.jaas.config`) and librdkafka's (`sasl.username`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from oncelog.core.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasInvalid, jaas_entry
from oncelog.core.login.mechanisms import MECHANISMS
from oncelog.errors import ConfigurationError

PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT")
NOT_BUILT = ("GSSAPI", "OAUTHBEARER")


class SecurityOptions(Protocol):
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
    def sasl_jaas_config(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A mechanism, and who logs in by it."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """What a connection does before its first request; `sasl` None: nothing is proven."""

    protocol: str = "PLAINTEXT"
    sasl: SaslLogin | None = None


def security_of(options: SecurityOptions) -> ClientSecurity:
    """Raises ConfigurationError, which names the option and no value that is secret."""
    protocol = options.security_protocol.upper()
    if protocol not in PROTOCOLS:
        raise ConfigurationError(
            f"security_protocol={options.security_protocol}: expected one of {', '.join(PROTOCOLS)}"
        )
    return ClientSecurity(protocol, _sasl_login(options) if protocol.startswith("SASL_") else None)


def _sasl_login(options: SecurityOptions) -> SaslLogin:
    mechanism = options.sasl_mechanism
    if not mechanism:
        raise ConfigurationError(f"sasl_mechanism is not set: expected one of {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        what = "is not built" if mechanism in NOT_BUILT else "is unknown"
        raise ConfigurationError(f"sasl_mechanism={mechanism} {what}: expected one of {', '.join(MECHANISMS)}")
    user, password = options.sasl_username, options.sasl_password
    if options.sasl_jaas_config:
        if user or password:
            raise ConfigurationError("sasl_jaas_config and sasl_username exclude each other")
        user, password = _of_jaas(options.sasl_jaas_config, mechanism)
    if not user or not password:
        raise ConfigurationError(
            f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config"
        )
    if "\0" in user + password:
        raise ConfigurationError("sasl_username and sasl_password cannot have a NUL character")
    return SaslLogin(mechanism, user, password)


def _of_jaas(text: str, mechanism: str) -> tuple[str, str]:
    try:
        entry = jaas_entry(text)
    except JaasInvalid as error:
        raise ConfigurationError(f"sasl_jaas_config: {error}") from None
    expected = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    if entry.module != expected:
        raise ConfigurationError(f"sasl_jaas_config: {mechanism} needs {expected}")
    if entry.options.get("tokenauth", "").lower() == "true":
        raise ConfigurationError("sasl_jaas_config: delegation tokens (tokenauth) are not built")
    return entry.options.get("username", ""), entry.options.get("password", "")
