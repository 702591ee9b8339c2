"""Certificates as strict readers want them, and an authority that is read again."""

from __future__ import annotations

import ssl
import sys

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from oncelog.errors import ConfigurationError
from oncelog.host.certificate_authority import NOTHING_WITHOUT, Authority, described
from oncelog.host.tls import TlsIdentity, TlsSettings, client_context, server_context

DAY_MS = 86_400_000


def believed(authority: Authority, chain: str, name: str) -> bool:
    """Whether a verifier that keeps to the letter (RFC 5280) takes it for this name."""
    store = Store([x509.load_pem_x509_certificate(authority.pem.encode())])
    verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(x509.load_pem_x509_certificate(chain.encode()), [])
    except x509.verification.VerificationError:
        return False
    return True


def test_a_strict_verifier_takes_it() -> None:
    authority = Authority()
    signed = authority.sign("broker", ["kafka.example.com", "10.0.0.1"], usage="server")
    assert believed(authority, signed.chain, "kafka.example.com")
    assert not believed(authority, signed.chain, "elsewhere.example.com")
    assert not believed(Authority("another"), signed.chain, "kafka.example.com")


def test_an_authority_is_read_again_and_signs_on() -> None:
    authority = Authority("mine", days=(-1, 100))
    again = Authority.of_pem(authority.pem, authority.key_pem)
    assert again.pem == authority.pem
    assert again.ends_ms == authority.ends_ms
    assert believed(authority, again.sign("b", ["b.example.com"]).chain, "b.example.com")


def test_an_authority_that_cannot_be() -> None:
    one, other = Authority(), Authority()
    with pytest.raises(ConfigurationError, match="does not fit"):
        Authority.of_pem(one.pem, other.key_pem)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Authority.of_pem("nothing", one.key_pem)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Authority.of_pem(one.pem, one.key_pem.replace("MI", "XX"))


def test_no_certificate_holds_longer_than_its_authority() -> None:
    authority = Authority(days=(-1, 10))
    (found,) = described(authority.sign("a", days=(-1, 400)).chain)
    assert found.ends_ms == authority.ends_ms
    assert DAY_MS * 10.9 < found.ends_ms - found.begins_ms <= DAY_MS * 11


def test_what_a_certificate_says() -> None:
    authority = Authority("mine")
    own, theirs = described(authority.pem + authority.sign("alice", ["localhost", "::1"], usage="client").chain)
    assert (own.common_name, own.is_authority, own.names) == ("mine", True, ())
    assert (theirs.common_name, theirs.is_authority, theirs.names) == ("alice", False, ("localhost", "::1"))
    assert (theirs.key_type, theirs.key_bits, theirs.hash_name) == ("EC", 256, "sha256")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        described("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def test_a_key_is_not_shown() -> None:
    signed = Authority().sign("alice")
    assert "PRIVATE" not in repr(signed)
    assert signed.pem.startswith("-----BEGIN PRIVATE KEY-----")


def test_both_sides_of_tls_take_what_it_signs() -> None:
    authority = Authority()
    server, client = (authority.sign(name, ["localhost"], usage=name) for name in ("server", "client"))
    accepting = server_context(
        TlsSettings(TlsIdentity(server.chain, server.key), authority.pem, client_certificate="required")
    )
    asking = client_context(TlsSettings(TlsIdentity(client.chain, client.key), authority.pem))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        asking.wrap_bio(there, back, server_hostname="localhost"),
        accepting.wrap_bio(back, there, server_side=True),
    ]
    done: set[int] = set()
    for number in [0, 1] * 4:
        if number not in done:
            try:
                ends[number].do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                continue
    assert done == {0, 1}
    assert ends[0].version() == "TLSv1.3"


def test_without_cryptography_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509.oid", None)
    with pytest.raises(ConfigurationError) as caught:
        Authority()
    assert str(caught.value) == NOTHING_WITHOUT
    assert "oncelog[security]" in NOTHING_WITHOUT
