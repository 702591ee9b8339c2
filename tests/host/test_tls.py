"""TLS contexts from PEM as people paste it."""

from __future__ import annotations

import ssl

import pytest

from oncelog.host.certificate_authority import Authority
from oncelog.host.tls import OF_TLS_13, TlsIdentity, TlsInvalid, TlsSettings, _why, server_context

KEY, CERTIFICATE = "PRIVATE KEY", "CERTIFICATE"


@pytest.fixture(scope="module")
def pem() -> str:
    return Authority("a").sign("b", ["b"], usage="server").pem


def block(pem: str, kind: str) -> str:
    begins, ends = pem.index(f"-----BEGIN {kind}-----"), f"-----END {kind}-----"
    return pem[begins : pem.index(ends) + len(ends)]


@pytest.mark.parametrize("between", [" ", "", "\t", "  "])
def test_a_block_on_one_line_is_read(pem: str, between: str) -> None:
    """As `ssl.keystore.certificate.chain` stands in a properties file, written with blanks where lines ended."""
    key, chain = (block(pem, kind).replace("\n", between) for kind in (KEY, CERTIFICATE))
    server_context(TlsSettings(identity=TlsIdentity(f"{chain} {chain}", key, name="here")))


@pytest.mark.parametrize("damage", ["-----END", "M"])
def test_a_damaged_line_is_told(pem: str, damage: str) -> None:
    key, chain = (block(pem, kind).replace("\n", " ") for kind in (KEY, CERTIFICATE))
    with pytest.raises(TlsInvalid, match="here: no key with its certificate in PEM"):
        server_context(TlsSettings(identity=TlsIdentity(chain, key.replace(damage, "", 1), name="here")))


def names_of_tls_12(pem: str, *ciphers: str) -> list[str]:
    identity = TlsIdentity(block(pem, CERTIFICATE), block(pem, KEY))
    context = server_context(TlsSettings(identity, ciphers=ciphers))
    return [each["name"] for each in context.get_ciphers() if each["name"] not in OF_TLS_13]


def test_suites_by_their_names_at_iana_in_openssl_and_of_older_files(pem: str) -> None:
    assert names_of_tls_12(
        pem,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
        "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_AES_256_GCM_SHA384",
    ) == [
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES256-SHA384",
        "DHE-RSA-AES128-GCM-SHA256",
        "AES128-SHA",
        "ECDHE-RSA-AES128-GCM-SHA256",
    ]
    assert names_of_tls_12(pem, "ECDHE+AESGCM", "!ECDSA", "!AES128") == ["ECDHE-RSA-AES256-GCM-SHA384"]


def test_a_suite_that_is_not_known_is_named(pem: str) -> None:
    """The others would have been spoken without a word about it."""
    with pytest.raises(TlsInvalid, match=r"ssl\.cipher\.suites: 'TLS_KRB5_WITH_RC4_128_MD5', 'X' are not known here"):
        names_of_tls_12(pem, "TLS_KRB5_WITH_RC4_128_MD5", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "X")


def test_suites_of_tls_13_alone_leave_no_tls_12(pem: str) -> None:
    """It was spoken with every suite that is usual."""
    identity = TlsIdentity(block(pem, CERTIFICATE), block(pem, KEY))
    context = server_context(TlsSettings(identity, ciphers=["TLS_AES_256_GCM_SHA384"]))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(TlsInvalid, match=r"ssl\.cipher\.suites: all are of TLS 1\.3, and ssl\.enabled\.protocols"):
        server_context(TlsSettings(identity, ciphers=["TLS_AES_256_GCM_SHA384"], versions=["TLSv1.2"]))


@pytest.mark.parametrize("reason", ["EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"])
def test_a_key_that_is_too_short_is_told_whichever_way_it_was_found(reason: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert _why(error, TlsIdentity("", "")) == "the key is too short"
