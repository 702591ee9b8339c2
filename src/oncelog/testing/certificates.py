"""Certificates for tests: an authority of one process, and what it signs. Needs `cryptography` (the extra `security`)."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog.host.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key with its certificate chain, as PEM."""

    chain: str
    key: str = field(repr=False)

    def write(self, directory: str | os.PathLike[str], name: str) -> str:
        """Both into one file that nobody else can read, as `ssl.keystore.location` takes it: its path."""
        path = Path(directory) / f"{name}.pem"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(self.key + self.chain)
        return str(path)


class Authority:
    """Signs certificates that hold for `days` days around now."""

    def __init__(self, name: str = "oncelog test authority") -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._builder(self._name, self._key.public_key(), (-1, 30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, _hash())
        )
        self.pem = self._certificate.public_bytes(_encoding()).decode("ascii")

    def _builder(self, subject: Any, public_key: Any, days: tuple[float, float]) -> Any:
        from cryptography import x509

        now = dt.datetime.fromtimestamp(RealClock().now_ms() / 1000, dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
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

        `days`: from and to, counted from now; `usage` "server" or "client" restricts it.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

        pairs = [(NameOID.COMMON_NAME.dotted_string, subject)] if isinstance(subject, str) else subject
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(ObjectIdentifier(oid), value) for oid, value in pairs])
        builder = self._builder(name, key.public_key(), days)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), False)
        if usage:
            kind = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}[usage]
            builder = builder.add_extension(x509.ExtendedKeyUsage([kind]), critical=False)
        signed = builder.sign(self._key, _hash())
        protection: Any = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        key_pem = key.private_bytes(_encoding(), serialization.PrivateFormat.PKCS8, protection)
        return Certificate(signed.public_bytes(_encoding()).decode("ascii"), key_pem.decode("ascii"))


def _general_name(name: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _hash() -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _encoding() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM
