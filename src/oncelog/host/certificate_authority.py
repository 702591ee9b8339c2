"""An authority that signs certificates, for `oncelog secure` and for tests. Needs `cryptography` (the extra `security`).

Keys are on the curve P-256. Every certificate says what it is for (RFC 5280: key usage, key identifiers), so that strict
readers take it; none holds longer than its authority.
"""

from __future__ import annotations

import datetime as dt
import importlib
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Self

from oncelog.errors import ConfigurationError
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass

DAY = dt.timedelta(days=1)
NOTHING_WITHOUT = "certificates are made with cryptography: pip install 'oncelog[security]'"
_USAGES = {"server": "SERVER_AUTH", "client": "CLIENT_AUTH"}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key with its certificate chain, as PEM."""

    chain: str
    key: str = field(repr=False)

    @property
    def pem(self) -> str:
        """Both, as `ssl.keystore.location` takes them."""
        return self.key + self.chain

    def write(self, directory: str | os.PathLike[str], name: str) -> str:
        """Both into one file that nobody else can read: its path."""
        path = Path(directory) / f"{name}.pem"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(self.pem)
        return str(path)


class Authority:
    """Signs certificates. `days`: from and to when it holds itself, counted from now. Raises ConfigurationError."""

    def __init__(self, name: str = "oncelog test authority", *, days: tuple[float, float] = (-1, 30)) -> None:
        x509, ec, name_oid = _modules("x509", "hazmat.primitives.asymmetric.ec", "x509.oid")
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(name_oid.NameOID.COMMON_NAME, name)])
        public_key = self._key.public_key()
        self._certificate = (
            self._builder(self._name, public_key, _moment(days[0]), _moment(days[1]))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(x509, signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .sign(self._key, _hash())
        )

    @classmethod
    def of_pem(cls, certificate: str, key: str) -> Self:
        """The authority that these two make. Raises ConfigurationError where they cannot be read, or do not fit."""
        x509, serialization = _modules("x509", "hazmat.primitives.serialization")
        made = cls.__new__(cls)
        try:
            made._certificate = x509.load_pem_x509_certificate(certificate.encode())
            made._key = serialization.load_pem_private_key(key.encode(), password=None)
        except (ValueError, TypeError):
            raise ConfigurationError("the authority's certificate or key cannot be read") from None
        if made._certificate.public_key() != made._key.public_key():
            raise ConfigurationError("the authority's key does not fit its certificate")
        made._name = made._certificate.subject
        return made

    @property
    def pem(self) -> str:
        """Its certificate: what others trust."""
        return _text(self._certificate.public_bytes(_encoding()))

    @property
    def key_pem(self) -> str:
        """Its key: whoever has it is the authority."""
        return _key_text(self._key)

    @property
    def ends_ms(self) -> int:
        """When it ends, in ms since 1970."""
        return int(self._certificate.not_valid_after_utc.timestamp() * 1000)

    def _builder(self, subject: Any, public_key: Any, begins: dt.datetime, ends: dt.datetime) -> Any:
        (x509,) = _modules("x509")
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )

    def sign(
        self,
        subject: str | Sequence[tuple[str, str]],
        names: Sequence[str] = (),
        *,
        days: tuple[float, float] = (-1, 30),
        usage: str = "",
        password: str = "",
    ) -> Certificate:
        """A certificate for a common name, or (OID, value) pairs, and host names or addresses.

        `days`: from and to, counted from now, and no longer than the authority; `usage` "server" or "client" restricts it.
        """
        x509, ec, oid = _modules("x509", "hazmat.primitives.asymmetric.ec", "x509.oid")
        pairs = [(oid.NameOID.COMMON_NAME.dotted_string, subject)] if isinstance(subject, str) else subject
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(oid.ObjectIdentifier(each), value) for each, value in pairs])
        ends = min(_moment(days[1]), self._certificate.not_valid_after_utc)
        own = self._key.public_key()
        builder = (
            self._builder(name, key.public_key(), _moment(days[0]), ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(x509, signs_certificates=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), False)
        if usage:
            kind = getattr(oid.ExtendedKeyUsageOID, _USAGES[usage])
            builder = builder.add_extension(x509.ExtendedKeyUsage([kind]), critical=False)
        signed = builder.sign(self._key, _hash())
        return Certificate(_text(signed.public_bytes(_encoding())), _key_text(key, password))


@dataclass(frozen=True, slots=True)
class Described:
    """What a certificate says of itself: its common name, names and addresses, when it holds, and how strong it is."""

    common_name: str
    names: tuple[str, ...]
    begins_ms: int
    ends_ms: int
    key_type: str  # RSA, EC, Ed25519 ...
    key_bits: int
    hash_name: str  # of its signature; "" where the algorithm has none of its own
    is_authority: bool


def described(pem: str) -> list[Described]:
    """Every certificate of a PEM text. Raises ConfigurationError."""
    (x509,) = _modules("x509")
    try:
        return [_described(x509, each) for each in x509.load_pem_x509_certificates(pem.encode())]
    except ValueError:
        raise ConfigurationError("a certificate cannot be read") from None


def _described(x509: Any, certificate: Any) -> Described:
    oid, public_key = x509.oid, certificate.public_key()
    common = certificate.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)
    extensions = {type(each.value): each.value for each in certificate.extensions}
    constraints = extensions.get(x509.BasicConstraints)
    hashed = certificate.signature_hash_algorithm
    return Described(
        str(common[0].value) if common else "",
        tuple(str(each.value) for each in extensions.get(x509.SubjectAlternativeName, ())),
        int(certificate.not_valid_before_utc.timestamp() * 1000),
        int(certificate.not_valid_after_utc.timestamp() * 1000),
        type(public_key).__name__.removesuffix("PublicKey").removeprefix("_").replace("EllipticCurve", "EC"),
        getattr(public_key, "key_size", 256),
        "" if hashed is None else hashed.name,
        constraints is not None and constraints.ca,
    )


def check_library() -> None:
    """Raises ConfigurationError, with what to install, where no certificate can be made."""
    _modules("x509")


def _modules(*names: str) -> list[Any]:
    """Parts of `cryptography`. Raises ConfigurationError where it is not installed."""
    try:
        importlib.import_module("cryptography.x509.oid")
        return [importlib.import_module(f"cryptography.{name}") for name in names]
    except ImportError:
        raise ConfigurationError(NOTHING_WITHOUT) from None


def _moment(days: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(RealClock().now_ms() // 1000, dt.UTC) + days * DAY


def _key_usage(x509: Any, *, signs_certificates: bool) -> Any:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> Any:
    (x509,) = _modules("x509")
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_text(key: Any, password: str = "") -> str:
    (serialization,) = _modules("hazmat.primitives.serialization")
    protection: Any = (
        serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    )
    return _text(key.private_bytes(_encoding(), serialization.PrivateFormat.PKCS8, protection))


def _text(pem: bytes) -> str:
    return pem.decode("ascii")


def _hash() -> Any:
    (hashes,) = _modules("hazmat.primitives.hashes")
    return hashes.SHA256()


def _encoding() -> Any:
    (serialization,) = _modules("hazmat.primitives.serialization")
    return serialization.Encoding.PEM
