"""Stores of type JKS, as the JDK's keytool wrote them.

tests/data/java_key_stores/ was made with the JDK 17's, each command with `-storepass store-secret -storetype JKS`:
    keytool -genkeypair -keystore keys.jks -alias broker -keyalg EC -dname CN=broker -validity 36500
        -ext san=dns:localhost,ip:127.0.0.1 -keypass key-secret
    keytool -exportcert -keystore keys.jks -alias broker -rfc -file broker.pem
    keytool -importcert -keystore trusted.jks -alias broker -file broker.pem -noprompt
    cp keys.jks two-keys.jks; keytool -genkeypair -keystore two-keys.jks -alias other -keyalg RSA -keysize 2048
        -dname CN=other -validity 36500 -keypass store-secret
"""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.host.java_key_store import JavaKeyStoreInvalid, read_java_key_store
from oncelog.host.key_stores import identity_from, trusted_from
from oncelog.host.tls import TlsInvalid, TlsSettings, client_context, server_context

DATA = Path(__file__).parent.parent / "data" / "java_key_stores"
WORD, KEY_WORD = "store-secret", "key-secret"
KEYS, TRUSTED = (DATA / "keys.jks").read_bytes(), (DATA / "trusted.jks").read_bytes()


@pytest.fixture
def keys(tmp_path):
    """The store with one key, as only its owner reads it."""
    return private(tmp_path, KEYS)


def private(directory, content):
    path = directory / "store.jks"
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("named", ["", "JKS", "jks"])
def test_a_key_and_whom_to_believe(keys, named):
    """Both ends of a connection, from a store each."""
    identity = identity_from(keys, named, WORD, KEY_WORD)
    assert "PRIVATE KEY" not in repr(identity)
    server = server_context(TlsSettings(identity))
    client = client_context(TlsSettings(trusted=trusted_from(str(DATA / "trusted.jks"), named, WORD)))
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=lambda: server.wrap_socket(theirs, server_side=True).close())
    thread.start()
    with ours, client.wrap_socket(ours, server_hostname="localhost") as connected:
        assert isinstance(connected, ssl.SSLSocket)
        subject = connected.getpeercert()["subject"]
    thread.join()
    assert subject == ((("commonName", "broker"),),)


def test_a_truststore_may_come_without_its_password_as_in_java():
    assert trusted_from(str(DATA / "trusted.jks"), "", "") == trusted_from(str(DATA / "trusted.jks"), "", WORD)


def test_the_certificate_of_a_key_is_believed_as_in_java(keys):
    assert trusted_from(keys, "", WORD) == trusted_from(str(DATA / "trusted.jks"), "", WORD)


@pytest.mark.parametrize(
    ("content", "password", "key_password", "says"),
    [
        (KEYS, "store-wrong", KEY_WORD, "its password is wrong, or it is damaged"),
        (KEYS, "", KEY_WORD, "a key store in JKS has a password: ssl.keystore.password"),
        (KEYS, WORD, "key-wrong", "the key's password is wrong .ssl.key.password"),
        (KEYS, WORD, "", "the key's password is wrong .ssl.key.password"),
        (KEYS[:-1], WORD, KEY_WORD, "it ends in the middle"),
        (KEYS[:8], WORD, KEY_WORD, "it ends in the middle"),
        (KEYS + b"more", WORD, KEY_WORD, "4 bytes stand behind its end"),
        (KEYS[:200] + bytes([KEYS[200] ^ 1]) + KEYS[201:], WORD, KEY_WORD, "its password is wrong, or it is damaged"),
        (KEYS[:4] + b"\0\0\0\3" + KEYS[8:], WORD, KEY_WORD, "JKS of version 3"),
        (TRUSTED, WORD, "", "no key with its certificate"),
        ((DATA / "two-keys.jks").read_bytes(), WORD, KEY_WORD, "there are 2 keys: keytool -delete"),
    ],
)
def test_what_is_refused_in_one_line_without_a_secret(tmp_path, content, password, key_password, says):
    with pytest.raises(TlsInvalid, match=says) as refused:
        identity_from(private(tmp_path, content), "", password, key_password)
    text = str(refused.value)
    assert "\n" not in text
    assert not [word for word in (WORD, KEY_WORD, "store-wrong", "key-wrong") if word in text]


def test_a_type_that_is_another(keys):
    for named in ("PEM", "PKCS12"):
        with pytest.raises(TlsInvalid, match=f"JKS stands there, and the type says {named}"):
            identity_from(keys, named, WORD, KEY_WORD)


def test_a_store_that_others_can_read(tmp_path):
    path = tmp_path / "open.jks"
    shutil.copyfile(DATA / "keys.jks", path)
    path.chmod(0o644)
    with pytest.raises(TlsInvalid, match="others can read it"):
        identity_from(str(path), "", WORD, KEY_WORD)


@given(st.integers(8, len(KEYS) - 1), st.binary(min_size=1, max_size=8))
def test_whatever_stands_there_is_a_store_or_one_line(at, change):
    """Without a password nothing is checked by the digest: every length and tag is the reader's own to doubt."""
    changed = KEYS[:at] + change + KEYS[at + len(change) :]
    said = ""
    try:
        for entry in read_java_key_store(changed, "").keys:
            assert entry.key_pem(KEY_WORD).startswith("-----BEGIN PRIVATE KEY-----\n")
    except JavaKeyStoreInvalid as error:
        said = str(error)
    assert "\n" not in said
