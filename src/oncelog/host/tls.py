"""TLS contexts from PEM files and texts, and what the other end of a connection showed: the only place that knows `ssl`.

TLS 1.2 and 1.3, forward secrecy and authenticated ciphers only, no renegotiation, no compression. A private key that
others can read is refused; so is one that does not fit its certificate.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from oncelog.host.tls_alert import AlertingContext
from oncelog.lazy_dataclass import dataclass

TlsContext = ssl.SSLContext  # for those who only pass it on
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_IANA = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(ECDSA|RSA)_WITH_(?:AES_(128|256)_(?:(GCM)|CBC)|CHACHA20_POLY1305)_(SHA\d*)")
OF_TLS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")  # always there
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
OTHERS = stat.S_IRWXO
FILE_BYTES_MAX = 1 << 20
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# A block that a properties file has on one line: base64 without a line break. Headers of an encrypted key cannot be on it.
_ONE_LINE = re.compile(r"(-----BEGIN ([A-Z0-9 ]{1,40})-----)([A-Za-z0-9+/= \t]+)(-----END \2-----)")
_LINE_LENGTH = 64


class TlsInvalid(Exception):
    """A key, certificate or setting that cannot be used; one line that names the file and nothing of its content."""


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """A private key with its certificate chain, as PEM."""

    chain: str
    key: str = field(repr=False)
    key_password: str = field(default="", repr=False)
    name: str = "the key"  # for messages: the file or option it came from


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a context is made of. `trusted` is PEM; "" trusts what the system trusts (clients) or nobody (servers)."""

    identity: TlsIdentity | None = None
    trusted: str = ""
    trusted_name: str = "the trusted certificates"
    client_certificate: str = "none"  # a server's: none, requested, required
    checks_host_name: bool = True  # a client's
    ciphers: Sequence[str] = ()  # by their names at IANA or in OpenSSL
    versions: Sequence[str] = ("TLSv1.2", "TLSv1.3")


def has_other_suites(settings: TlsSettings) -> bool:
    """Whether suites are spoken beside those that are named."""
    return bool(settings.ciphers) and "TLSv1.3" in settings.versions and not set(OF_TLS_13) <= set(settings.ciphers)


def read_secret_file(path: str) -> str:
    """A file with a secret in it. Raises TlsInvalid where it cannot be read, or others can."""
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & OTHERS:
                raise TlsInvalid(f"{path}: others can read it (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
            return _bounded(file.read(FILE_BYTES_MAX + 1), path)
    except (OSError, UnicodeDecodeError) as error:
        raise TlsInvalid(f"{path}: {_reason(error)}") from error


def read_public_file(path: str) -> str:
    """A file with certificates. Raises TlsInvalid."""
    try:
        with open(path, encoding="utf-8") as file:
            return _bounded(file.read(FILE_BYTES_MAX + 1), path)
    except (OSError, UnicodeDecodeError) as error:
        raise TlsInvalid(f"{path}: {_reason(error)}") from error


def _bounded(text: str, path: str) -> str:
    if len(text) > FILE_BYTES_MAX:
        raise TlsInvalid(f"{path}: longer than {FILE_BYTES_MAX} bytes")
    return text


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "not a text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or type(error).__name__


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """What a listener speaks TLS with. Raises TlsInvalid."""
    context = _set_up(AlertingContext(ssl.PROTOCOL_TLS_SERVER), settings)
    assert settings.identity is not None, "a server has a key"
    if settings.client_certificate != "none":
        if not settings.trusted:
            raise TlsInvalid("certificates of clients are asked for, and no truststore says whose are believed")
        _trust(context, settings)
        is_required = settings.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """What a client speaks TLS with. Raises TlsInvalid."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.shown = settings.identity.name if settings.identity is not None else ""
    context.trusted = settings.trusted_name if settings.trusted else "what this system trusts"
    _set_up(context, settings)
    context.check_hostname = settings.checks_host_name
    if settings.trusted:
        _trust(context, settings)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


class ClientContext(ssl.SSLContext):
    """A client's, with the names of what it shows and trusts, for messages."""

    shown = ""  # nothing
    trusted = ""


def _set_up(context: ssl.SSLContext, settings: TlsSettings) -> ssl.SSLContext:
    versions = [VERSIONS[name] for name in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _choose_ciphers(context, settings.ciphers)
    if settings.identity is not None:
        _identify(context, settings.identity)
    return context


def _choose_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """What is named and no more; of TLS 1.3 Python cannot choose, there it is all or nothing."""
    asked = [_name_in_openssl(name) for name in names if name not in OF_TLS_13]
    if names and not asked:
        if context.maximum_version != ssl.TLSVersion.TLSv1_3:
            raise TlsInvalid("ssl.cipher.suites: all are of TLS 1.3, and ssl.enabled.protocols does not have it")
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    strangers = [name for name in names if name not in OF_TLS_13 and not _is_known(_name_in_openssl(name))]
    try:
        if not strangers:
            context.set_ciphers(":".join(asked) or CIPHERS)
            return
    except ssl.SSLError:  # they take each other away
        strangers = list(names)
    shown = ", ".join(repr(name[:60]) for name in strangers[:10])
    raise TlsInvalid(f"ssl.cipher.suites: {shown} {'is' if len(strangers) == 1 else 'are'} not known here: take it out")


def _name_in_openssl(name: str) -> str:
    match = _IANA.fullmatch(name)
    if match is None:
        return name
    exchange, signature, bits, is_gcm, digest = match.groups()
    cipher = [f"AES{bits}", *(["GCM"] if is_gcm else []), digest] if bits else ["CHACHA20", "POLY1305"]
    return "-".join([*([exchange, signature] if exchange else []), *cipher])


def _is_known(name: str) -> bool:
    if name.startswith(("!", "-", "+", "@")):  # what it does depends on the names before it
        return True
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True


def _identify(context: ssl.SSLContext, identity: TlsIdentity) -> None:
    try:
        with _as_file(_with_lines(f"{identity.key}\n{identity.chain}\n")) as path:
            context.load_cert_chain(path, password=lambda: identity.key_password)
    except ssl.SSLError as error:
        raise TlsInvalid(f"{identity.name}: {_why(error, identity)}") from None


def _with_lines(pem: str) -> str:
    """Blocks that were pasted as one line, with blanks where lines ended, as OpenSSL reads them."""

    def block(found: re.Match[str]) -> str:
        body = "".join(found[3].split())
        lines = [body[start : start + _LINE_LENGTH] for start in range(0, len(body), _LINE_LENGTH)]
        return "\n".join(["", found[1], *lines, found[4], ""])

    return _ONE_LINE.sub(block, pem)


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """OpenSSL wants a file: one in memory where there are such, so that no key is written to a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("oncelog-key", os.MFD_CLOEXEC)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        import tempfile

        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # which nobody else can read
            file.write(text)
            file.flush()
            yield file.name


def certificates_of(pem: str) -> list[bytes]:
    """Every certificate of a PEM text, in DER. Raises TlsInvalid."""
    try:
        return [ssl.PEM_cert_to_DER_cert(each) for each in _CERTIFICATE.findall(pem)]
    except ValueError:
        raise TlsInvalid("a certificate cannot be read") from None


def _why(error: ssl.SSLError, identity: TlsIdentity) -> str:
    reason = error.reason or ""
    if "KEY_VALUES_MISMATCH" in reason:
        return "the key does not fit the certificate"
    if "TOO_SMALL" in reason or "TOO_WEAK" in reason:
        return "the key is too short"
    if "ENCRYPTED" in f"{identity.key}{identity.chain}":  # OpenSSL gives no reason
        if not identity.key_password:
            return "the key is encrypted: ssl.key.password is not set"
        return "the key's password is wrong, or the key is damaged"
    return "no key with its certificate in PEM can be read there"


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:  # without what stands between them: comments may be in any letters, and OpenSSL's are ASCII
        context.load_verify_locations(cadata=b"".join(certificates_of(settings.trusted)))
    except (ssl.SSLError, ValueError, TlsInvalid):
        raise TlsInvalid(f"{settings.trusted_name}: no certificates in PEM can be read there") from None
    if not context.cert_store_stats()["x509"]:
        raise TlsInvalid(f"{settings.trusted_name}: there is no certificate")


def peer_certificate(ssl_object: Any) -> bytes | None:
    """The certificate, DER, that the other end proved to have; None where it showed none, or TLS is not spoken."""
    certificate: bytes | None = None if ssl_object is None else ssl_object.getpeercert(True)
    return certificate


_BAD = "it does not take our certificate ({shown}): not valid yet, not for clients, or damaged ({alert})"
_NOT_SPOKEN = "it speaks none of our TLS versions with our ciphers: ssl_enabled_protocols, ssl_cipher_suites ({alert})"
_REFUSALS = {
    "UNKNOWN_CA": "it does not believe who signed our certificate ({shown}): its ssl.truststore needs that authority, or we "
    "another certificate ({alert})",
    "CERTIFICATE_EXPIRED": "our certificate ({shown}) has expired: show a new one ({alert})",
    "CERTIFICATE_REVOKED": "our certificate ({shown}) was revoked: show a new one ({alert})",
    "BAD_CERTIFICATE": _BAD,
    "UNSUPPORTED_CERTIFICATE": _BAD,
    "CERTIFICATE_UNKNOWN": "it does not take our certificate ({shown}): its ssl.truststore has not who signed it, or it has "
    "expired, is not for clients, or damaged ({alert})",  # Java says no more (docs/kafka-notes.md A7)
    "ACCESS_DENIED": _BAD,
    "PROTOCOL_VERSION": _NOT_SPOKEN,
    "INSUFFICIENT_SECURITY": _NOT_SPOKEN,
    "HANDSHAKE_FAILURE": _NOT_SPOKEN,
}
_ASKS = "it wants a certificate of ours, and none was shown: set ssl_keystore_location ({alert})"
_WHERE_NONE_IS_SHOWN = {
    "CERTIFICATE_REQUIRED": _ASKS,
    "BAD_CERTIFICATE": _ASKS,  # Java, of an empty chain
    "HANDSHAKE_FAILURE": "it wants a certificate of ours, and none was shown (ssl_keystore_location), or "
    + _NOT_SPOKEN,
}


def refusal_in(error: BaseException | None, context: ssl.SSLContext | None = None) -> str:
    """Why TLS failed in a way that no retry mends: what was shown is not believed, by us or by them; else "". `context`:
    what we speak with."""
    shown, trusted = (context.shown, context.trusted) if isinstance(context, ClientContext) else ("", "")
    if isinstance(error, ssl.SSLCertVerificationError):
        by = f" by {trusted}" if trusted else ""
        return f"its certificate is not believed{by}: {error.verify_message or error.reason}"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    name = reason.partition("ALERT_")[2]
    if not name:
        return ""
    text = _REFUSALS.get(name, "it refused our certificate, or what we speak ({alert})")
    if not shown:
        text = _WHERE_NONE_IS_SHOWN.get(name, text)
    return text.format(shown=shown or "none", alert=reason.lower().replace("_", " "))


def shown_by(context: ssl.SSLContext) -> str:
    """The file or option of the certificate that a client's context shows; "" for none."""
    return context.shown if isinstance(context, ClientContext) else ""


def tls_version(ssl_object: Any) -> str:
    """What is spoken: "TLSv1.3"."""
    return "" if ssl_object is None else str(ssl_object.version() or "")
