"""A client's conversations: PLAIN, and SCRAM with a server that must show that it has the user's keys.

The password's salting takes some milliseconds of work, bounded by what iterations are believed.
"""

from __future__ import annotations

import hmac
from typing import Protocol

from oncelog.core.scram import (
    HASHES,
    ScramInvalid,
    auth_message,
    base64_text,
    client_proof,
    parse_server_final,
    parse_server_first,
    salted_password_of,
    saslname,
    server_signature,
)

ITERATION_COUNT_MIN, ITERATION_COUNT_MAX = 4_096, 1_000_000
NONCE_SIZE_BYTES = 24
MECHANISMS = ("PLAIN", *HASHES)


class LoginRefused(Exception):
    """What the server said cannot be believed; the message says why, and nothing secret."""


class Login(Protocol):
    """One conversation of one mechanism."""

    def first(self) -> bytes:
        """The first token."""
        ...

    def next(self, token: bytes) -> bytes | None:
        """The next token, or None where the server's was the last. Raises LoginRefused."""
        ...


def login_of(mechanism: str, user: str, password: str, nonce: bytes, *, is_token: bool = False) -> Login:
    """A new conversation; `nonce` must be random. `is_token`: by a delegation token, its id and MAC in base64."""
    if mechanism == "PLAIN":
        return PlainLogin(user, password)
    return ScramLogin(mechanism, user, password, base64_text(nonce), is_token=is_token)


class PlainLogin:
    """One token; the server's is empty."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        """User and password."""
        return self._token

    def next(self, token: bytes) -> bytes | None:  # noqa: ARG002 - whatever the server adds
        """Nothing is left to say."""
        return None


class ScramLogin:
    """Two tokens; the server's second one proves it."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str, *, is_token: bool = False) -> None:
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        self._bare = f"n={saslname(user)},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._awaited: bytes | None = None

    def first(self) -> bytes:
        """Name and nonce."""
        return f"n,,{self._bare}".encode()

    def next(self, token: bytes) -> bytes | None:
        """The proof, then nothing. Raises LoginRefused."""
        try:
            if self._awaited is None:
                return self._proof(token)
            self._check(token, self._awaited)
            return None
        except ScramInvalid as error:
            raise LoginRefused(f"the broker's SCRAM message cannot be read: {error}") from error

    def _proof(self, token: bytes) -> bytes:
        server = parse_server_first(token)
        if not server.nonce.startswith(self._nonce) or server.nonce == self._nonce:
            raise LoginRefused("the broker's nonce does not continue ours")
        if not ITERATION_COUNT_MIN <= server.iterations <= ITERATION_COUNT_MAX:
            bounds = f"{ITERATION_COUNT_MIN} to {ITERATION_COUNT_MAX}"
            raise LoginRefused(f"the broker asks for {server.iterations} iterations, and {bounds} are believed")
        salted = salted_password_of(self._hash, self._password, server.salt, server.iterations)
        without_proof = f"c={base64_text(b'n,,')},r={server.nonce}"
        signed = auth_message(self._bare, server.text, without_proof)
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._awaited = server_signature(self._hash, server_key, signed)
        return f"{without_proof},p={base64_text(client_proof(self._hash, salted, signed))}".encode()

    @staticmethod
    def _check(token: bytes, awaited: bytes) -> None:
        if not hmac.compare_digest(parse_server_final(token), awaited):
            raise LoginRefused("the broker does not have this user's keys: its signature is wrong")
