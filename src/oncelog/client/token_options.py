"""Where a client's tokens for OAUTHBEARER come from, by its options: one place, and no secret in what is shown.

Names of both worlds: Kafka's (`sasl.oauthbearer.*`, or its JAAS line with clientId, clientSecret, scope), librdkafka's
(`oauth_cb`, `https.ca.location`), aiokafka's and kafka-python's (`sasl_oauth_token_provider`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from oncelog.core.jaas import BEARER_MODULE, JaasInvalid, jaas_entry
from oncelog.core.login.oauthbearer import BearerInvalid, extensions_text
from oncelog.errors import ConfigurationError
from oncelog.host.key_stores import trusted_from
from oncelog.host.tls import TlsContext, TlsInvalid, TlsSettings, client_context
from oncelog.host.web import UrlInvalid, WebAddress, web_address
from oncelog.lazy_dataclass import dataclass

_URL = "sasl_oauthbearer_token_endpoint_url"
_ID = "sasl_oauthbearer_client_credentials_client_id"
_UNSECURED = "unsecuredLogin"


class TokenOptions(Protocol):
    """The options of a client that say so."""

    @property
    def sasl_jaas_config(self) -> str: ...
    @property
    def sasl_oauth_token_provider(self) -> Any: ...
    @property
    def oauth_cb(self) -> Any: ...
    @property
    def sasl_oauthbearer_config(self) -> str: ...
    @property
    def sasl_oauthbearer_token_endpoint_url(self) -> str: ...
    @property
    def sasl_oauthbearer_client_credentials_client_id(self) -> str: ...
    @property
    def sasl_oauthbearer_client_credentials_client_secret(self) -> str: ...
    @property
    def sasl_oauthbearer_scope(self) -> str: ...
    @property
    def sasl_oauthbearer_extensions(self) -> str: ...
    @property
    def sasl_oauthbearer_header_urlencode(self) -> bool: ...
    @property
    def https_ca_location(self) -> str: ...
    @property
    def https_ca_pem(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ByProvider:
    """Asked of a function or object of the application. `argument`: what `oauth_cb` is called with."""

    provider: Any = field(repr=False)
    argument: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByEndpoint:
    """Asked of an identity provider, with this client's own credentials (RFC 6749 §4.4)."""

    address: WebAddress
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    is_header_url_encoded: bool = False
    tls: TlsContext | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ByFile:
    """Read from a file each time one is needed: something else keeps it fresh."""

    path: str


@dataclass(frozen=True, slots=True)
class Unsigned:
    """Made here, and proves nothing: for development."""

    user: str
    lifetime_s: int


Origin = ByProvider | ByEndpoint | ByFile | Unsigned


@dataclass(frozen=True, slots=True)
class TokenConfig:
    """Where tokens come from, and what is said beside them."""

    origin: Origin
    extensions: Mapping[str, str]


def token_config(options: TokenOptions) -> TokenConfig:
    """Raises ConfigurationError, which names the option and no value that is secret."""
    jaas = _jaas(options.sasl_jaas_config)
    url = options.sasl_oauthbearer_token_endpoint_url
    ways = {
        "sasl_oauth_token_provider": options.sasl_oauth_token_provider is not None,
        "oauth_cb": options.oauth_cb is not None,
        _URL: bool(url),
        "unsecuredLoginStringClaim_sub": f"{_UNSECURED}StringClaim_sub" in jaas,
    }
    chosen = [name for name, is_given in ways.items() if is_given]
    if not chosen:
        raise ConfigurationError(f"sasl_mechanism=OAUTHBEARER needs sasl_oauth_token_provider, or {_URL}")
    if len(chosen) > 1:
        raise ConfigurationError(f"{chosen[0]} and {chosen[1]} exclude each other")
    extensions = _extensions(options.sasl_oauthbearer_extensions)
    extensions |= {name[len("extension_") :]: value for name, value in jaas.items() if name.startswith("extension_")}
    try:
        extensions_text(extensions)
    except BearerInvalid as error:
        raise ConfigurationError(f"sasl_oauthbearer_extensions: {error}") from None
    if url:
        return TokenConfig(_by_url(options, jaas), extensions)
    if chosen[0] == "unsecuredLoginStringClaim_sub":
        return TokenConfig(_unsigned(jaas), extensions)
    if options.oauth_cb is not None:
        _check_callable("oauth_cb", options.oauth_cb)
        return TokenConfig(ByProvider(options.oauth_cb, (options.sasl_oauthbearer_config,)), extensions)
    provider = options.sasl_oauth_token_provider
    if not callable(getattr(provider, "token", None)):
        _check_callable("sasl_oauth_token_provider", provider)
    return TokenConfig(ByProvider(provider), extensions)


def _check_callable(name: str, value: Callable[..., Any] | None) -> None:
    if not callable(value):
        raise ConfigurationError(f"{name}: expected a function, or an object with token(), not {type(value).__name__}")


def _jaas(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        entry = jaas_entry(text)
    except JaasInvalid as error:
        raise ConfigurationError(f"sasl_jaas_config: {error}") from None
    if entry.module != BEARER_MODULE:
        raise ConfigurationError(f"sasl_jaas_config: OAUTHBEARER needs {BEARER_MODULE}")
    return entry.options


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): value for name, _, value in pairs}


def _by_url(options: TokenOptions, jaas: Mapping[str, str]) -> ByEndpoint | ByFile:
    url = options.sasl_oauthbearer_token_endpoint_url
    if url.startswith("file:"):
        return ByFile(url.removeprefix("file://") if url.startswith("file:///") else url.removeprefix("file:"))
    try:
        address = web_address(url)
    except UrlInvalid as error:
        raise ConfigurationError(f"{_URL}: {error}") from None
    client_id = options.sasl_oauthbearer_client_credentials_client_id or jaas.get("clientId", "")
    secret = options.sasl_oauthbearer_client_credentials_client_secret or jaas.get("clientSecret", "")
    if not client_id or not secret:
        raise ConfigurationError(
            f"{_URL} needs {_ID} and {_ID[:-2]}secret, or clientId and clientSecret in sasl_jaas_config"
        )
    return ByEndpoint(
        address,
        client_id,
        secret,
        options.sasl_oauthbearer_scope or jaas.get("scope", ""),
        options.sasl_oauthbearer_header_urlencode,
        _tls(options, jaas) if address.is_tls else None,
    )


def _tls(options: TokenOptions, jaas: Mapping[str, str]) -> TlsContext:
    location = options.https_ca_location or jaas.get("ssl.truststore.location", "")
    trusted = options.https_ca_pem or jaas.get("ssl.truststore.certificates", "")
    try:
        if location and not trusted:
            trusted = trusted_from(
                location, jaas.get("ssl.truststore.type", ""), jaas.get("ssl.truststore.password", "")
            )
        return client_context(
            TlsSettings(trusted=trusted.replace("\\n", "\n"), trusted_name=location or "https_ca_pem")
        )
    except TlsInvalid as error:
        raise ConfigurationError(f"{_URL}: {error}") from None


def _unsigned(jaas: Mapping[str, str]) -> Unsigned:
    lifetime = jaas.get(f"{_UNSECURED}LifetimeSeconds", "3600")
    if not (lifetime.isascii() and lifetime.isdecimal() and 0 < len(lifetime) < 10):
        raise ConfigurationError(f"sasl_jaas_config: {_UNSECURED}LifetimeSeconds is no number of seconds")
    return Unsigned(jaas[f"{_UNSECURED}StringClaim_sub"], int(lifetime))
