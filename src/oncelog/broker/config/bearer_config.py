"""What a listener takes OAUTHBEARER's tokens by: whose keys, which claims. Class names are synonyms, nothing is loaded."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

from oncelog.broker.config.config import UNSECURED_KEY, BrokerConfig, ConfigInvalid, of_listener
from oncelog.broker.config.jaas_options import jaas_options
from oncelog.broker.config.secret import Secret
from oncelog.core.jaas import BEARER_MODULE
from oncelog.core.json_web_token import UNSIGNED, TokenRules
from oncelog.host.json_web_keys import ALGORITHMS, KeysInvalid, check_library
from oncelog.host.key_stores import trusted_from
from oncelog.host.tls import TlsContext, TlsInvalid, TlsSettings, client_context
from oncelog.host.web import UrlInvalid, WebAddress, web_address
from oncelog.lazy_dataclass import dataclass

T = TypeVar("T")

OAUTHBEARER = "OAUTHBEARER"
URL_KEY = "sasl.oauthbearer.jwks.endpoint.url"


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """Where keys come from: a file or an address; how often they are asked for."""

    path: str
    address: WebAddress | None
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    tls: TlsContext | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class BearerConfig:
    """`keys` None: tokens are not signed."""

    rules: TokenRules
    keys: KeysConfig | None


def bearer_config(config: BrokerConfig, listener: str) -> BearerConfig:
    """What the keys say. Raises ConfigInvalid, naming the key."""

    def of(key: str, otherwise: T) -> T:
        return of_listener(config, listener, key, otherwise, OAUTHBEARER)

    url = of(URL_KEY, config.sasl_oauthbearer_jwks_endpoint_url)
    is_unsecured = of(UNSECURED_KEY, config.oncelog_oauthbearer_unsecured)
    if is_unsecured and url:
        raise ConfigInvalid(f"listener {listener}: {UNSECURED_KEY} and {URL_KEY} exclude each other")
    if not is_unsecured and not url:
        raise ConfigInvalid(
            f"listener {listener}: {URL_KEY} does not say whose tokens are believed (file:PATH or https://HOST/PATH)"
        )
    algorithms = of("oncelog.oauthbearer.algorithms", config.oncelog_oauthbearer_algorithms)
    rules = TokenRules(
        algorithms=(UNSIGNED,) if is_unsecured else _algorithms(algorithms),
        audiences=_names(of("sasl.oauthbearer.expected.audience", config.sasl_oauthbearer_expected_audience)),
        issuer=of("sasl.oauthbearer.expected.issuer", config.sasl_oauthbearer_expected_issuer),
        skew_s=of("sasl.oauthbearer.clock.skew.seconds", config.sasl_oauthbearer_clock_skew_seconds),
        sub_claim=of("sasl.oauthbearer.sub.claim.name", config.sasl_oauthbearer_sub_claim_name),
        scope_claim=of("sasl.oauthbearer.scope.claim.name", config.sasl_oauthbearer_scope_claim_name),
        needs_issued_at=not is_unsecured,
    )
    options = _options(config, listener)
    if is_unsecured:
        return BearerConfig(rules, None)
    try:
        check_library()
    except KeysInvalid as error:
        raise ConfigInvalid(f"listener {listener}: {error}") from None
    path, address = _place(url)
    prefix = "sasl.oauthbearer.jwks.endpoint."
    keys = KeysConfig(
        path,
        address,
        of(f"{prefix}refresh.ms", config.sasl_oauthbearer_jwks_endpoint_refresh_ms),
        of(f"{prefix}retry.backoff.ms", config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms),
        of(f"{prefix}retry.backoff.max.ms", config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms),
        _tls(listener, options) if address is not None and address.is_tls else None,
    )
    return BearerConfig(rules, keys)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _algorithms(text: str) -> tuple[str, ...]:
    names = _names(text)
    stranger = next((name for name in names if name not in ALGORITHMS), None)
    if stranger is not None or not names:
        raise ConfigInvalid(
            f"oncelog.oauthbearer.algorithms: {stranger or text!r} is not believed: {', '.join(ALGORITHMS)} are"
        )
    return names


def _place(url: str) -> tuple[str, WebAddress | None]:
    """A path, or an address to ask."""
    if url.startswith("file:"):
        path = url.removeprefix("file:")
        path = path.removeprefix("//") if path.startswith("//") else path
        if not path:
            raise ConfigInvalid(f"{URL_KEY}: expected file:PATH")
        return path, None
    try:
        return "", web_address(url)
    except UrlInvalid as error:
        raise ConfigInvalid(f"{URL_KEY}: {error}") from None


def _options(config: BrokerConfig, listener: str) -> dict[str, str]:
    """Of the mechanism's JAAS line: Kafka has the trusted certificates of a key set's address there."""
    key = f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config"
    line: Secret = of_listener(config, listener, "sasl.jaas.config", Secret(), OAUTHBEARER)
    if not line:
        return {}
    return jaas_options(line, key, BEARER_MODULE)


def _tls(listener: str, options: dict[str, str]) -> TlsContext:
    location, trusted = options.get("ssl.truststore.location", ""), options.get("ssl.truststore.certificates", "")
    try:
        if location and not trusted:
            store_type, password = options.get("ssl.truststore.type", ""), options.get("ssl.truststore.password", "")
            trusted = trusted_from(location, store_type, password)
        return client_context(TlsSettings(trusted=trusted.replace("\\n", "\n"), trusted_name=location or URL_KEY))
    except TlsInvalid as error:
        raise ConfigInvalid(f"listener {listener}: {error}") from None
