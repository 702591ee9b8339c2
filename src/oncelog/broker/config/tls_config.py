"""What a listener speaks TLS with: keys and certificates from files or texts, and what certificates are called.

`ssl.client.auth` of a SASL_SSL listener is taken from
its own key only, as in Kafka: there the user of SASL is the principal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from oncelog.broker.config.config import BrokerConfig, ConfigInvalid, of_listener
from oncelog.core.access.principal_mapping import MappingRule, RulesInvalid, mapping_rules
from oncelog.host.key_stores import identity_from, trusted_from
from oncelog.host.tls import VERSIONS, TlsIdentity, TlsInvalid, TlsSettings
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """A listener's side of TLS."""

    settings: TlsSettings
    rules: Sequence[MappingRule]


def tls_config(config: BrokerConfig, listener: str, *, has_sasl: bool) -> TlsConfig:
    """What the keys say. Raises ConfigInvalid, naming the key or file and nothing of what is in it."""
    rules_text = of_listener(config, listener, "ssl.principal.mapping.rules", config.ssl_principal_mapping_rules)
    try:
        rules = mapping_rules(rules_text)
    except RulesInvalid as error:
        raise ConfigInvalid(f"ssl.principal.mapping.rules: {error}") from error
    client_auth = of_listener(config, listener, "ssl.client.auth", "none" if has_sasl else config.ssl_client_auth)
    trusted, trusted_name = _trusted(config, listener)
    if client_auth != "none" and not trusted:
        raise ConfigInvalid(f"listener {listener}: ssl.client.auth={client_auth} needs ssl.truststore.location")
    return TlsConfig(
        TlsSettings(
            _identity(config, listener),
            trusted,
            trusted_name,
            client_auth,
            ciphers=_names(of_listener(config, listener, "ssl.cipher.suites", config.ssl_cipher_suites)),
            versions=_versions(of_listener(config, listener, "ssl.enabled.protocols", config.ssl_enabled_protocols)),
        ),
        rules,
    )


def stores_beside(settings: TlsSettings, config: BrokerConfig, listener: str) -> dict[str, object]:
    """What can be read now of where key and trusted certificates come from, by its key, and is not what `settings` have."""
    found: dict[str, object] = {}
    with suppress(ConfigInvalid):
        if (identity := _identity(config, listener)) != settings.identity:
            found["ssl.keystore.location"] = identity
    with suppress(ConfigInvalid):
        if (trusted := _trusted(config, listener)) != (settings.trusted, settings.trusted_name):
            found["ssl.truststore.location"] = trusted
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _versions(text: str) -> list[str]:
    names = _names(text)
    stranger = next((name for name in names if name not in VERSIONS), None)
    if stranger is not None or not names:
        raise ConfigInvalid(f"ssl.enabled.protocols: {stranger or text!r} is not spoken: {', '.join(VERSIONS)} are")
    return names


def _identity(config: BrokerConfig, listener: str) -> TlsIdentity:
    key = of_listener(config, listener, "ssl.keystore.key", config.ssl_keystore_key).text
    chain = of_listener(config, listener, "ssl.keystore.certificate.chain", config.ssl_keystore_certificate_chain).text
    location = of_listener(config, listener, "ssl.keystore.location", config.ssl_keystore_location)
    password = of_listener(config, listener, "ssl.key.password", config.ssl_key_password).text
    if key or chain:
        if location:
            raise ConfigInvalid(f"listener {listener}: ssl.keystore.key and ssl.keystore.location exclude each other")
        if not key or not chain:
            raise ConfigInvalid(f"listener {listener}: ssl.keystore.key and ssl.keystore.certificate.chain go together")
        return TlsIdentity(_unfolded(chain), _unfolded(key), password, "ssl.keystore.key")
    if not location:
        raise ConfigInvalid(f"listener {listener}: ssl.keystore.location does not say where its key is")
    try:
        return identity_from(
            location,
            of_listener(config, listener, "ssl.keystore.type", config.ssl_keystore_type),
            of_listener(config, listener, "ssl.keystore.password", config.ssl_keystore_password).text,
            password,
        )
    except TlsInvalid as error:
        raise ConfigInvalid(f"ssl.keystore.location: {error}") from None


def _trusted(config: BrokerConfig, listener: str) -> tuple[str, str]:
    text = of_listener(config, listener, "ssl.truststore.certificates", config.ssl_truststore_certificates).text
    location = of_listener(config, listener, "ssl.truststore.location", config.ssl_truststore_location)
    if text:
        return _unfolded(text), "ssl.truststore.certificates"
    if not location:
        return "", ""
    try:
        store_type = of_listener(config, listener, "ssl.truststore.type", config.ssl_truststore_type)
        password = of_listener(config, listener, "ssl.truststore.password", config.ssl_truststore_password).text
        return trusted_from(location, store_type, password), location
    except TlsInvalid as error:
        raise ConfigInvalid(f"ssl.truststore.location: {error}") from None


def _unfolded(text: str) -> str:
    """PEM that was put into one line of a properties file."""
    return text.replace("\\n", "\n")
