"""The server's side of SCRAM: two messages, and the same work for users who exist and others.

A user is one with a password, or (`tokenauth=true`) the id of a delegation token: the one never proves the other.
An unknown user gets a salt that is always the same for its name, and is refused with the proof, as a wrong password is.
Stricter than Apache Kafka: the channel binding must be what the first message said, and sizes are bounded.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Protocol

from oncelog.core.sasl.exchange import Challenge, Outcome, Proven, Refused
from oncelog.core.sasl.token_login import ITERATION_COUNT as TOKEN_ITERATION_COUNT
from oncelog.core.sasl.token_login import TokenKeys
from oncelog.core.scram import (
    HASHES,
    ClientFirst,
    ScramInvalid,
    auth_message,
    base64_text,
    is_proof,
    parse_client_final,
    parse_client_first,
    server_signature,
)

USUAL_ITERATION_COUNT = 4_096
USUAL_SALT_BYTES = 26  # as Kafka's tools draw them


class StoredKeys(Protocol):
    """What is kept of a user's password."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


class ScramExchange:
    """One conversation. `nonce` must be new each time; `secret` the same for the broker's life."""

    def __init__(
        self,
        mechanism: str,
        keys_of: Callable[[str], StoredKeys | None],
        token_keys_of: Callable[[str, bytes], TokenKeys | None] = lambda _token_id, _salt: None,
        *,
        nonce: str,
        secret: bytes,
        usual_iterations: int = USUAL_ITERATION_COUNT,
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._keys_of = keys_of
        self._token_keys_of = token_keys_of
        self._nonce = nonce
        self._secret = secret
        self._usual_iterations = usual_iterations  # what an unknown user is told
        self._first: ClientFirst | None = None
        self._keys: StoredKeys | TokenKeys | None = None
        self._server_first = ""

    def respond(self, token: bytes) -> Outcome:
        """A challenge for the first message, proven or refused for the second."""
        user = self._first.user if self._first is not None else ""
        try:
            return self._begun(token) if self._first is None else self._ended(token)
        except ScramInvalid as error:
            return self._refused(str(error), user)

    def _begun(self, token: bytes) -> Outcome:
        first = parse_client_first(token)
        if first.authorization_id not in ("", first.user):
            return self._refused("another authorization id", first.user)
        if "m" in first.extensions:
            return self._refused("a mandatory extension", first.user)
        self._first = first
        self._nonce = first.nonce + self._nonce
        is_token = first.extensions.get("tokenauth", "").lower() == "true"
        salt = self._false_salt(first.user)
        keys = self._token_keys_of(first.user, salt) if is_token else self._keys_of(first.user)
        self._keys = keys
        iterations = TOKEN_ITERATION_COUNT if is_token else self._usual_iterations
        if keys is not None:
            salt, iterations = bytes(keys.salt), keys.iterations
        self._server_first = f"r={self._nonce},s={base64_text(salt)},i={iterations}"
        return Challenge(self._server_first.encode())

    def _ended(self, token: bytes) -> Outcome:
        first, keys = self._first, self._keys
        assert first is not None
        final = parse_client_final(token)
        if final.binding != first.gs2_header.encode():
            return self._refused("another channel binding than the first message's", first.user)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            return self._refused("another nonce", first.user)
        signed = auth_message(first.bare, self._server_first, final.without_proof)
        stored_key = bytes(32 if self._hash == "sha256" else 64) if keys is None else keys.stored_key
        is_right = is_proof(self._hash, stored_key, signed, final.proof)
        if keys is None:
            return self._refused("unknown user", first.user)
        if not is_right:
            return self._refused("wrong password", first.user)
        signature = server_signature(self._hash, keys.server_key, signed)
        last = b"v=" + base64_text(signature).encode()
        if isinstance(keys, TokenKeys):
            return Proven(keys.owner, last, keys.lifetime_ms, first.user)
        return Proven(first.user, last, stored_key=bytes(keys.stored_key))

    def _false_salt(self, user: str) -> bytes:
        return hmac.digest(self._secret, f"{self._mechanism} {user}".encode(), "sha256")[:USUAL_SALT_BYTES]

    def _refused(self, reason: str, user: str = "") -> Refused:
        return Refused(f"authentication failed: invalid credentials for SASL mechanism {self._mechanism}", reason, user)
