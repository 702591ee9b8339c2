"""Java's own key stores (JKS), as `keytool -storetype JKS` and older JDKs write them: read, never written.

Magic, version, entries, then SHA-1 over the password, a phrase and all bytes before (`sun.security.provider.JavaKeyStore`).
A private key lies in PKCS#8 under Sun's own stream of SHA-1 digests (`sun.security.provider.KeyProtector`). That is weak
by today's measure: it keeps a key as secret as the mode of its file does. Nothing here needs a library.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import field
from hashlib import sha1

from oncelog.lazy_dataclass import dataclass

START = b"\xfe\xed\xfe\xed"
_PHRASE = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_VERSIONS = (1, 2)
_KEY, _TRUSTED = 1, 2
_SUNS_PROTECTION = bytes.fromhex("060a2b060104012a02110101")  # the DER form of 1.3.6.1.4.1.42.2.17.1.1
_SEQUENCE, _OCTETS = 0x30, 0x04


class JavaKeyStoreInvalid(Exception):
    """What is wrong, in words that tell nothing of the content."""


@dataclass(frozen=True, slots=True)
class PrivateKeyEntry:
    """A key that is still locked, with its chain (DER, its own certificate first)."""

    alias: str
    locked: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def key_pem(self, password: str) -> str:
        """The key in PKCS#8. Raises JavaKeyStoreInvalid."""
        return pem("PRIVATE KEY", _unlocked(_protected(self.locked), password))


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """All that stands in a store, in its order."""

    keys: tuple[PrivateKeyEntry, ...]
    trusted: tuple[bytes, ...]  # certificates in DER


def pem(what: str, der: bytes) -> str:
    """DER as a text (RFC 7468); `what` stands in its first and last line."""
    text = base64.b64encode(der).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {what}-----", *lines, f"-----END {what}-----", ""])


def read_java_key_store(data: bytes, password: str) -> JavaKeyStore:
    """Raises JavaKeyStoreInvalid. Without a password nothing tells whether it was changed, as in Java."""
    reader = _Reader(data, len(START))
    version = reader.number(4)
    if version not in _VERSIONS:
        raise JavaKeyStoreInvalid(f"JKS of version {version} is not known")
    keys: list[PrivateKeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(reader.number(4)):
        kind = reader.number(4)
        alias = reader.take(reader.number(2)).decode("utf-8", "replace")
        reader.take(8)  # when it was made
        if kind == _KEY:
            locked = reader.take(reader.number(4))
            chain = tuple(reader.certificate(version) for _ in range(reader.number(4)))
            keys.append(PrivateKeyEntry(alias, locked, chain))
        elif kind == _TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise JavaKeyStoreInvalid("it is damaged: an entry is neither a key nor a certificate")
    content_bytes = reader.position
    told = reader.take(_DIGEST_BYTES)
    if reader.position != len(data):
        raise JavaKeyStoreInvalid(f"it is damaged: {len(data) - reader.position} bytes stand behind its end")
    digest = sha1(_utf_16(password) + _PHRASE + data[:content_bytes], usedforsecurity=False).digest()
    if password and not hmac.compare_digest(told, digest):
        raise JavaKeyStoreInvalid("its password is wrong, or it is damaged")
    return JavaKeyStore(tuple(keys), tuple(trusted))


class _Reader:
    """Big-endian numbers and bytes, never beyond the end."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    def take(self, count: int) -> bytes:
        """The next bytes. Raises JavaKeyStoreInvalid."""
        end = self.position + count
        if end > len(self._data):
            raise JavaKeyStoreInvalid("it is damaged: it ends in the middle")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def number(self, size_bytes: int) -> int:
        """An unsigned number."""
        return int.from_bytes(self.take(size_bytes), "big")

    def certificate(self, version: int) -> bytes:
        """One in DER; version 2 says its type before."""
        if version > 1 and (kind := self.take(self.number(2))) != b"X.509":
            raise JavaKeyStoreInvalid(f"a certificate of type {kind[:20].decode('utf-8', 'replace')!r} is not known")
        return self.take(self.number(4))

    def tagged(self, tag: int) -> bytes:
        """What an element of DER holds."""
        if self.number(1) != tag:
            raise JavaKeyStoreInvalid("it is damaged: a key is not in the form of PKCS#8")
        length = self.number(1)
        return self.take(self.number(length & 0x7F) if length & 0x80 else length)


def _protected(locked: bytes) -> bytes:
    """What EncryptedPrivateKeyInfo holds, where Sun's protection is what it names."""
    inner = _Reader(_Reader(locked).tagged(_SEQUENCE))
    if not inner.tagged(_SEQUENCE).startswith(_SUNS_PROTECTION):
        raise JavaKeyStoreInvalid("a key is protected in a way that JKS does not have")
    return inner.tagged(_OCTETS)


def _unlocked(protected: bytes, password: str) -> bytes:
    """Salt, the key under a chain of digests, and a digest of password and key."""
    salt, body, check = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    word = _utf_16(password)
    stream, digest = bytearray(), salt
    while len(stream) < len(body):
        digest = sha1(word + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
    if not hmac.compare_digest(sha1(word + key, usedforsecurity=False).digest(), check):
        raise JavaKeyStoreInvalid("the key's password is wrong (ssl.key.password; not set: the store's)")
    return key


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
