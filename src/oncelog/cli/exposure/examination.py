"""A server.properties looked at as a stranger would: each finding is a line, what, where, and what to do.

A failure lets in, or shows to others, what it should not, or keeps clients or the broker out; a warning is what will be one,
or what should be meant.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from oncelog.broker.config.addresses import (
    EVERYWHERE,
    Address,
    address_from,
    advertised_addresses,
)
from oncelog.broker.config.config import (
    BrokerConfig,
    ConfigInvalid,
    config_from,
    is_secret_key,
    of_listener,
    properties_from,
)
from oncelog.broker.config.listeners import (
    ListenerConfig,
    each_listener,
    keys_of_no_listener,
    openness_of,
    takes_unsigned_tokens,
)
from oncelog.broker.config.mechanisms import PLAIN, USER_PREFIX
from oncelog.broker.config.secret import Secret
from oncelog.cli.config_references import with_references
from oncelog.cli.exposure.certificates import examine_certificates
from oncelog.cli.exposure.files import (
    examine_directory,
    examine_secret_file,
    examine_trusted_file,
    secret_files_beside,
)
from oncelog.cli.finding import FAILURE, OK, WARNING, Finding
from oncelog.core.access.listeners import NamedAddress, Protocol, is_loopback
from oncelog.core.config_references import ReferenceInvalid
from oncelog.core.jaas import JaasInvalid, jaas_entry
from oncelog.host.tls import OF_TLS_13, TlsInvalid, server_context

DEFAULT_LISTEN = ("127.0.0.1:9092",)
FILE_BYTES_MAX = 1 << 20
PASSWORD_LENGTH_MIN, SECRET_KEY_LENGTH_MIN = 12, 32
ANONYMOUS = "User:ANONYMOUS"
CLOSE_IT = "make it SASL_SSL, or SSL with ssl.client.auth=required (docs/security.md), or listen on 127.0.0.1"


def examine_data_directory(path: str) -> list[Finding]:
    """Who else can look into it; nothing where it is no broker's."""
    return list(examine_directory(Path(path)))


def examine_config(path: str, now_ms: int) -> tuple[list[Finding], str | None]:
    """Everything there is to say of a configuration, and the data directory that it names."""
    file = Path(path).absolute()
    try:
        values = _read(file)
        config, warnings = config_from(values)
        listeners = list(each_listener(config, DEFAULT_LISTEN))
    except ConfigInvalid as error:
        return [Finding("config", FAILURE, f"{path}: {error}", "the broker does not start with it")], None
    found = [Finding("config", OK, f"{path}: {len(values)} keys")]
    if any(map(is_secret_key, values)):
        found += examine_secret_file(file)
    else:
        found += examine_trusted_file(file)
    for warning in warnings:
        if warning.startswith("super.users"):
            found.append(Finding("rights", WARNING, warning, "super.users=User:a;User:b"))
    for address, listener in listeners:
        found += _listener(config, address, listener)
    for key in keys_of_no_listener(config, [address.name for address, _ in listeners]):
        found.append(
            Finding(
                "config", WARNING, f"{key} is for a listener that is not there", "the listener's name, in lower case"
            )
        )
    made = [listener for _, listener in listeners if isinstance(listener, ListenerConfig)]
    found += _certificates(config, made, now_ms)
    found += _rights(config, made)
    found += _switches(config)
    for each in _trusted_files(config):
        found += examine_trusted_file(each)
    beside = secret_files_beside(file)
    readable = [finding for each in beside for finding in examine_secret_file(each)]
    found += readable
    if beside and not readable:
        found.append(
            Finding("files", OK, f"{len(beside)} files with secrets in {file.parent}: nobody else can read them")
        )
    for each in beside:
        if each.name == "certificate.pem":
            found += _soon(each, now_ms)
    data = config.log_dirs.split(",")[0] or config.log_dir
    return found, data or None


def _read(file: Path) -> dict[str, str]:
    try:
        with file.open(encoding="utf-8") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ConfigInvalid("not a file")
            text = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigInvalid(getattr(error, "strerror", None) or "cannot be read as text") from error
    if len(text) > FILE_BYTES_MAX:
        raise ConfigInvalid(f"longer than {FILE_BYTES_MAX} bytes")
    try:
        return with_references(properties_from(text))
    except ReferenceInvalid as error:
        raise ConfigInvalid(str(error)) from None


def _listener(
    config: BrokerConfig, address: NamedAddress, listener: ListenerConfig | ConfigInvalid
) -> Iterator[Finding]:
    check, where = f"listener {address.name}", str(Address(address.host or "*", address.port))
    if isinstance(listener, ConfigInvalid):
        yield Finding(check, FAILURE, f"{where}: {listener}", "the broker does not start with it")
        return
    is_own, why = is_loopback(address.host), openness_of(listener)
    with_what = f" with {', '.join(listener.mechanisms)}" if listener.mechanisms else ""
    if takes_unsigned_tokens(listener):
        what = f"{where} takes unsigned tokens: whoever reaches it is who it says"
        yield Finding(
            check,
            WARNING if is_own else FAILURE,
            what,
            "sasl.oauthbearer.jwks.endpoint.url instead of oncelog.oauthbearer.unsecured",
        )
    elif why and not is_own:
        yield Finding(check, FAILURE, f"{where} {why}", CLOSE_IT)
    elif why:
        yield Finding(check, OK, f"{where} {why}; only this machine reaches it")
    elif listener.protocol is Protocol.SASL_PLAINTEXT and not is_own:
        yield Finding(check, WARNING, f"{where} sends all in clear but the passwords", "make it SASL_SSL")
    else:
        yield Finding(check, OK, f"{where} {listener.protocol.name}{with_what}")
    yield from _weak_passwords(config, check, listener)
    yield from _weak_ciphers(check, listener)


def _weak_passwords(config: BrokerConfig, check: str, listener: ListenerConfig) -> Iterator[Finding]:
    if PLAIN not in listener.mechanisms:
        return
    line: Secret = of_listener(config, listener.name, "sasl.jaas.config", config.sasl_jaas_config, PLAIN)
    try:
        options = jaas_entry(line.text).options
    except JaasInvalid:  # its listener says so
        return
    users = {key.removeprefix(USER_PREFIX): word for key, word in options.items() if key.startswith(USER_PREFIX)}
    weak = sorted(user for user, word in users.items() if len(word) < PASSWORD_LENGTH_MIN or user in word)
    if weak:
        what = f"weak passwords of {', '.join(weak)}: short, or with the user's name in them"
        yield Finding(check, WARNING, what, f"{PASSWORD_LENGTH_MIN} characters or more, drawn")


def _weak_ciphers(check: str, listener: ListenerConfig) -> Iterator[Finding]:
    suites = [] if listener.tls is None else listener.tls.settings.ciphers
    weak = [name for name in suites if name not in OF_TLS_13 and not _is_strong(name.upper())]
    if weak:
        what = f"ssl.cipher.suites: {', '.join(weak)}: without forward secrecy, or not authenticated"
        yield Finding(check, WARNING, what, "leave the key out: ECDHE with AES-GCM or ChaCha20")


def _is_strong(name: str) -> bool:
    return "ECDHE" in name and ("GCM" in name or "CHACHA20" in name)


def _certificates(config: BrokerConfig, listeners: Sequence[ListenerConfig], now_ms: int) -> Iterator[Finding]:
    told = {each.name: each.host for each in advertised_addresses(config)}
    shown: dict[tuple[str, str], list[str]] = {}
    trusted: dict[tuple[str, str], None] = {}
    for listener in listeners:
        if listener.tls is None:
            continue
        settings = listener.tls.settings
        assert settings.identity is not None
        hosts = shown.setdefault((settings.identity.name, f"{settings.identity.chain}\n"), [])
        host = told.get(listener.name, listener.host)
        if host not in EVERYWHERE and host not in hosts:
            hosts.append(host)
        if settings.client_certificate != "none":
            trusted[settings.trusted_name, settings.trusted] = None
        try:
            server_context(settings)
        except TlsInvalid as error:
            yield Finding(f"listener {listener.name}", FAILURE, str(error), "the broker does not start with it")
    for (name, pem), hosts in shown.items():
        yield from examine_certificates("certificate", name, pem, now_ms, hosts=hosts, is_own=True)
    for name, pem in trusted:
        yield from examine_certificates("trusted", name, pem, now_ms)


def _soon(path: Path, now_ms: int) -> Iterator[Finding]:
    """A user's certificate, where something is to be said of it."""
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        yield Finding(
            "certificate", WARNING, f"{path}: cannot be read", "oncelog secure DIRECTORY --renew --mutual-tls"
        )
        return
    yield from (each for each in examine_certificates("certificate", str(path), text, now_ms) if each.status != OK)


def _rights(config: BrokerConfig, listeners: Sequence[ListenerConfig]) -> Iterator[Finding]:
    check = "rights"
    supers = [each.strip() for each in config.super_users.split(";") if each.strip()]
    if not config.authorizer_class_name:
        if any(not each.is_plain for each in listeners):
            advice = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer, and super.users"
            yield Finding(check, WARNING, "there is no authorizer: whoever comes in may do everything", advice)
        return
    if not supers:
        what = "super.users is not set: nobody may change rules, users or settings that no rule allows"
        yield Finding(check, WARNING, what, "super.users=User:NAME")
    else:
        yield Finding(check, OK, f"rules decide; super users: {', '.join(supers)}")
    if ANONYMOUS in supers:
        nameless = [each for each in listeners if _lets_nameless_in(each)]
        is_open = any(not is_loopback(each.host) for each in nameless)
        what = f"{ANONYMOUS} is a super user: whoever comes without a name may do everything"
        advice = "take it out of super.users when the first user is made"
        if nameless:
            yield Finding(check, FAILURE if is_open else WARNING, what, advice)
    if config.allow_everyone_if_no_acl_found:
        what = "allow.everyone.if.no.acl.found=true: what no rule is about is open to every user"
        yield Finding(check, WARNING, what, "set it to false, and add rules: oncelog acls add")


def _lets_nameless_in(listener: ListenerConfig) -> bool:
    if listener.protocol.has_sasl:
        return False
    return listener.tls is None or listener.tls.settings.client_certificate != "required"


def _switches(config: BrokerConfig) -> Iterator[Finding]:
    if config.oncelog_insecure_listeners:
        what = "oncelog.insecure.listeners=true: listeners that let everybody in are not refused"
        yield Finding("config", WARNING, what, "take it out")
    secret = config.delegation_token_secret_key.text
    if secret and len(secret) < SECRET_KEY_LENGTH_MIN:
        what = f"delegation.token.secret.key is short: {len(secret)} characters"
        yield Finding("config", WARNING, what, f"{SECRET_KEY_LENGTH_MIN} or more, drawn: openssl rand -base64 48")
    if config.metrics_listen:
        try:
            address = address_from(config.metrics_listen)
        except ConfigInvalid as error:
            yield Finding("config", FAILURE, f"metrics.listen: {error}", "the broker does not start with it")
            return
        if not is_loopback(address.host):
            what = f"metrics.listen={config.metrics_listen}: whoever reaches it reads names of topics and users"
            yield Finding("config", WARNING, what, "listen on 127.0.0.1, or behind a firewall")


def _trusted_files(config: BrokerConfig) -> list[Path]:
    """Truststores and key sets, of the broker and of single listeners."""
    named = [config.ssl_truststore_location, _file_of(config.sasl_oauthbearer_jwks_endpoint_url)]
    for key, value in config.listener_overrides.items():
        if key.endswith(".ssl.truststore.location"):
            named.append(value)
        elif key.endswith(".sasl.oauthbearer.jwks.endpoint.url"):
            named.append(_file_of(value))
    return [Path(each) for each in dict.fromkeys(named) if each and os.path.exists(each)]


def _file_of(url: str) -> str:
    return url.removeprefix("file:").removeprefix("//") if url.startswith("file:") else ""
