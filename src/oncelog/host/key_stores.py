"""Files with keys and certificates as Kafka's `ssl.*.type` names them: PEM, PKCS12 and JKS.

Where no type is said the content says it. PKCS12 (what `keytool` writes today) needs `cryptography`, the extra `security`.
"""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Sequence
from typing import Any

from oncelog.host.java_key_store import START, JavaKeyStore, JavaKeyStoreInvalid, pem, read_java_key_store
from oncelog.host.tls import FILE_BYTES_MAX, OTHERS, TlsIdentity, TlsInvalid

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
TYPES = (PEM, PKCS12, JKS)
_JCEKS_START, _DER_START, _PEM_START = b"\xce\xce\xce\xce", b"\x30", b"-----BEGIN "


def identity_from(path: str, store_type: str, store_password: str, key_password: str) -> TlsIdentity:
    """A key with its certificates. Raises TlsInvalid, naming the file and nothing of its content."""
    data = _read(path, is_secret=True)
    found = _type_of(data, path, store_type, store_password)
    if found == PEM:
        return TlsIdentity(_text(data, path), "", key_password, path)
    if found == JKS:
        return _java_identity(data, path, store_password, key_password)
    store = _pkcs12(data, path, store_password)
    if store.key is None or store.cert is None:
        raise TlsInvalid(f"{path}: there is no key with its certificate")
    serialization = _serialization(path)
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return TlsIdentity(_certificates(store, path), key.decode("ascii"), "", path)


def trusted_from(path: str, store_type: str, store_password: str) -> str:
    """Certificates that are believed, as PEM. Raises TlsInvalid."""
    data = _read(path, is_secret=False)
    found = _type_of(data, path, store_type, store_password)
    if found == PEM:
        return _text(data, path)
    if found == JKS:
        java = _java(data, path, store_password)
        # Java believes what is marked as trusted, and the first certificate of a key's chain
        return _pem(path, [*java.trusted, *(each.chain[0] for each in java.keys if each.chain)])
    return _certificates(_pkcs12(data, path, store_password), path)


def _type_of(data: bytes, path: str, store_type: str, store_password: str) -> str:
    named = store_type.upper()
    if named not in ("", *TYPES):
        raise TlsInvalid(f"{path}: the type {store_type[:20]!r} is unknown: {', '.join(TYPES)} are read")
    if data.startswith(_JCEKS_START):
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise TlsInvalid(f"{path}: JCEKS is not built: {command}")
    found = _content_of(data)
    if not found:
        raise TlsInvalid(f"{path}: neither PEM, PKCS12 nor JKS stands there")
    if named not in ("", JKS, found):  # JKS is Kafka's default, and Java reads PKCS12 under that name
        raise TlsInvalid(f"{path}: {found} stands there, and the type says {named}")
    if found == PEM and store_password:
        raise TlsInvalid(f"{path}: a store in PEM has no password; a key's own is ssl.key.password")
    return found


def _content_of(data: bytes) -> str:
    if data.startswith(START):
        return JKS
    return PKCS12 if data.startswith(_DER_START) else PEM if _PEM_START in data else ""


def _java(data: bytes, path: str, password: str) -> JavaKeyStore:
    try:
        return read_java_key_store(data, password)
    except JavaKeyStoreInvalid as error:
        raise TlsInvalid(f"{path}: {error}") from None


def _java_identity(data: bytes, path: str, store_password: str, key_password: str) -> TlsIdentity:
    if not store_password:
        raise TlsInvalid(f"{path}: a key store in JKS has a password: ssl.keystore.password")
    keys = _java(data, path, store_password).keys
    if len(keys) > 1:
        raise TlsInvalid(f"{path}: there are {len(keys)} keys: keytool -delete -alias NAME -keystore {path}")
    if not keys or not keys[0].chain:
        raise TlsInvalid(f"{path}: there is no key with its certificate")
    try:
        key = keys[0].key_pem(key_password or store_password)
    except JavaKeyStoreInvalid as error:
        raise TlsInvalid(f"{path}: {error}") from None
    return TlsIdentity(_pem(path, keys[0].chain), key, "", path)


def _pem(path: str, certificates: Sequence[bytes]) -> str:
    if not certificates:
        raise TlsInvalid(f"{path}: there is no certificate")
    return "".join(pem("CERTIFICATE", each) for each in certificates)


def _read(path: str, *, is_secret: bool) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TlsInvalid(f"{path}: {error.strerror or type(error).__name__}") from error
    if is_secret and mode & OTHERS:
        raise TlsInvalid(f"{path}: others can read it (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
    if len(data) > FILE_BYTES_MAX:
        raise TlsInvalid(f"{path}: longer than {FILE_BYTES_MAX} bytes")
    return data


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TlsInvalid(f"{path}: not a text in UTF-8") from None


def _serialization(path: str) -> Any:
    """`cryptography`'s module, with its `pkcs12`."""
    try:
        from cryptography.hazmat.primitives import serialization

        importlib.import_module("cryptography.hazmat.primitives.serialization.pkcs12")
    except ImportError:
        raise TlsInvalid(f"{path}: PKCS12 needs cryptography: pip install oncelog[security]") from None
    return serialization


def _pkcs12(data: bytes, path: str, password: str) -> Any:
    try:
        return _serialization(path).pkcs12.load_pkcs12(data, password.encode() if password else None)
    except (ValueError, TypeError):
        which = (
            "its password is wrong"
            if password
            else "it has a password (ssl.keystore.password, ssl.truststore.password)"
        )
        raise TlsInvalid(f"{path}: {which}, or it is damaged") from None


def _certificates(store: Any, path: str) -> str:
    encoding = _serialization(path).Encoding.PEM
    every = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not every:
        raise TlsInvalid(f"{path}: there is no certificate")
    return "".join(each.public_bytes(encoding).decode("ascii") for each in every)
