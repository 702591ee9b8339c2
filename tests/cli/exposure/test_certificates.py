"""Certificates that will be trouble, told before they are."""

from __future__ import annotations

import datetime as dt
import ssl
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from oncelog.cli.exposure.certificates import examine_certificates
from oncelog.cli.finding import FAILURE, OK, WARNING
from oncelog.host.certificate_authority import Authority
from oncelog.host.clock import RealClock

DAY_MS = 86_400_000
AUTHORITY = Authority(days=(-100, 4000))
NOW_MS = RealClock().now_ms()
RSA_WITH_SHA256, RSA_WITH_SHA1 = (bytes.fromhex(f"06092a864886f70d0101{end}") for end in ("0b", "05"))


def found(pem: str, *, now_ms: int = NOW_MS, hosts: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    rows = examine_certificates("certificate", "broker.pem", pem, now_ms, hosts=hosts, is_own=True)
    return [(each.status, each.found) for each in rows]


@pytest.mark.parametrize(
    ("days", "status", "says"),
    [
        ((-1, 31), OK, "holds until"),
        ((-1, 29), WARNING, "expires in"),
        ((-9, -1), FAILURE, "has expired"),
        ((1, 90), FAILURE, "does not hold before"),
    ],
)
def test_when_it_holds(days: tuple[int, int], status: str, says: str) -> None:
    ((is_status, said),) = found(AUTHORITY.sign("b", ["b"], days=days).chain)
    assert (is_status, says in said) == (status, True)


def weak(bits: int, *, by_sha1: bool = False) -> str:
    """What this project does not sign: RSA with so many bits; a signature that says it is by SHA-1."""
    key = rsa.generate_private_key(65537, bits)
    name, now = x509.Name([]), dt.datetime.fromtimestamp(NOW_MS // 1000, dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1).not_valid_before(now)
    der = builder.not_valid_after(now + dt.timedelta(90)).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    return ssl.DER_cert_to_PEM_cert(der.replace(RSA_WITH_SHA256, RSA_WITH_SHA1) if by_sha1 else der)


def test_keys_and_signatures_that_are_weak() -> None:
    assert [status for status, _ in found(weak(2048))] == [OK]
    ((status, said),) = found(weak(1024))
    assert (status, said) == (FAILURE, "broker.pem (no name) has a weak key: RSA of 1024 bits")
    ((status, said),) = found(weak(2048, by_sha1=True))
    assert (status, "signed with SHA1" in said) == (FAILURE, True)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("kafka.example.com", OK),
        ("KAFKA.example.com", OK),
        ("a.other.org", OK),
        ("10.0.0.1", OK),
        ("0:0::1", OK),
        ("other.org", WARNING),
        ("a.b.other.org", WARNING),
        ("10.0.0.2", WARNING),
    ],
)
def test_names_that_clients_are_told(host: str, expected: str) -> None:
    pem = AUTHORITY.sign("b", ["kafka.example.com", "*.other.org", "10.0.0.1", "::1"], days=(-1, 90)).chain
    ((status, said),) = found(pem, hosts=(host,))
    assert (status, host in said or status == OK) == (expected, True)


def test_only_the_first_has_names_that_matter() -> None:
    pem = AUTHORITY.sign("b", ["b"], days=(-1, 90)).chain + AUTHORITY.pem
    assert [status for status, _ in found(pem, hosts=("b",))] == [OK, OK]


def test_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [status for status, _ in found("nothing")] == [FAILURE]
    monkeypatch.setitem(sys.modules, "cryptography.x509.oid", None)
    rows = list(examine_certificates("certificate", "broker.pem", "nothing", NOW_MS))
    assert [(each.status, each.advice) for each in rows] == [
        (WARNING, "pip install 'oncelog[security]' to have certificates looked at")
    ]
