"""Stores as `keytool` and others write them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from oncelog.host.certificate_authority import Authority
from oncelog.host.key_stores import identity_from, trusted_from
from oncelog.host.tls import TlsIdentity, TlsInvalid, TlsSettings, certificates_of, client_context, server_context

WORD = "store-secret"
AUTHORITY = Authority()


@pytest.fixture
def stores(tmp_path):
    """A key store and a trust store in PKCS12."""
    certificate = AUTHORITY.sign("broker", ["localhost"])
    key = serialization.load_pem_private_key(certificate.key.encode(), None)
    own, ca = (x509.load_pem_x509_certificate(pem.encode()) for pem in (certificate.chain, AUTHORITY.pem))
    locked = serialization.BestAvailableEncryption(WORD.encode())
    keys, trusted = tmp_path / "keys.p12", tmp_path / "trusted.p12"
    keys.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, own, [ca], locked))
    trusted.write_bytes(pkcs12.serialize_key_and_certificates(b"ca", None, None, [ca], locked))
    keys.chmod(0o600)
    return str(keys), str(trusted)


@pytest.mark.parametrize("named", ["", "PKCS12", "pkcs12", "JKS"])
def test_a_key_and_whom_to_believe(stores, named):
    """Kafka's default type is JKS, and Java reads PKCS12 under that name."""
    keys, trusted = stores
    identity = identity_from(keys, named, WORD, "")
    assert len(certificates_of(identity.chain)) == 2
    assert "PRIVATE KEY" not in repr(identity)
    pem = trusted_from(trusted, named, WORD)
    server_context(TlsSettings(identity, pem, client_certificate="required"))
    client_context(TlsSettings(identity, pem))


@pytest.mark.parametrize(
    ("named", "password", "says"),
    [
        ("", "", "it has a password .ssl.keystore.password"),
        ("", "store-wrong", "its password is wrong"),
        ("PEM", WORD, "PKCS12 stands there, and the type says PEM"),
        ("XYZ", WORD, "'XYZ' is unknown"),
    ],
)
def test_what_is_refused(stores, named, password, says):
    with pytest.raises(TlsInvalid, match=says) as refused:
        identity_from(stores[0], named, password, "")
    assert "store-" not in str(refused.value)


def test_a_store_without_a_key_is_no_identity(stores, tmp_path):
    path = tmp_path / "copy.p12"
    shutil.copy(stores[1], path)
    path.chmod(0o600)
    with pytest.raises(TlsInvalid, match="no key with its certificate"):
        identity_from(str(path), "", WORD, "")


def test_files_that_are_none(tmp_path):
    path = tmp_path / "store"
    path.touch(0o600)
    for content, says in ((b"nothing", "neither PEM, PKCS12 nor JKS"), (b"\xce" * 8, "keytool -importkeystore")):
        path.write_bytes(content)
        with pytest.raises(TlsInvalid, match=says):
            identity_from(str(path), "JKS", "", "")
    with pytest.raises(TlsInvalid, match="No such file"):
        trusted_from(str(tmp_path / "none"), "", "")
    path.chmod(0o604)
    with pytest.raises(TlsInvalid, match="others can read it"):
        identity_from(str(path), "", "", "")


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java's keytool")
def test_what_keytool_writes(tmp_path):
    keys, trusted, certificate = (str(tmp_path / name) for name in ("keys", "trusted", "ca.pem"))
    words = ["-storepass", WORD]
    make = [
        "-genkeypair",
        "-keystore",
        keys,
        "-alias",
        "b",
        "-keyalg",
        "EC",
        "-dname",
        "CN=b",
        "-ext",
        "san=dns:localhost",
    ]
    subprocess.run(["keytool", *make, *words], check=True, capture_output=True)
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    take = ["-importcert", "-keystore", trusted, "-alias", "ca", "-file", certificate, "-noprompt"]
    subprocess.run(["keytool", *take, *words], check=True, capture_output=True)
    (tmp_path / "keys").chmod(0o600)
    server_context(TlsSettings(identity_from(keys, "JKS", WORD, ""), trusted_from(trusted, "JKS", WORD)))
    old = str(tmp_path / "old.jks")
    subprocess.run(
        ["keytool", *make[:2], old, *make[3:], *words, "-storetype", "JKS", "-keypass", WORD],
        check=True,
        capture_output=True,
    )
    (tmp_path / "old.jks").chmod(0o600)
    server_context(TlsSettings(identity_from(old, "", WORD, "")))


def test_trusted_certificates_with_words_between_them(tmp_path):
    """Bundles name their authorities in comments, in whatever letters."""
    one, other = Authority("one"), Authority("other")
    path = tmp_path / "bundle.pem"
    path.write_text(f"# Türkiye, Магнит\n{one.pem}\n# another\n{other.pem}", encoding="utf-8")
    context = client_context(TlsSettings(trusted=trusted_from(str(path), "", "")))
    assert context.cert_store_stats()["x509"] == 2


@pytest.mark.parametrize("text", ["ü", "", "-----BEGIN CERTIFICATE-----\nü\n-----END CERTIFICATE-----\n"])
def test_trusted_certificates_that_are_none(text):
    with pytest.raises(TlsInvalid, match="certificate"):
        server_context(TlsSettings(_identity_of(Authority()), text, "bundle.pem", client_certificate="required"))


def _identity_of(authority):
    signed = authority.sign("broker")
    return TlsIdentity(signed.chain, signed.key)


def test_a_byte_order_mark_in_front(tmp_path):
    """Some editors write one."""
    certificate = AUTHORITY.sign("broker", ["localhost"])
    path = tmp_path / "broker.pem"
    path.touch(0o600)
    path.write_text("\ufeff" + certificate.key + certificate.chain, encoding="utf-8")
    server_context(TlsSettings(identity_from(str(path), "PEM", "", "")))
