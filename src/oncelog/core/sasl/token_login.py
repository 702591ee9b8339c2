"""Delegation tokens as SCRAM knows them: user is the token's id, password its MAC in base64; the keys follow from that."""

from __future__ import annotations

import base64
import hmac
from dataclasses import field
from hashlib import new as new_hash

from oncelog.core.scram import HASHES, salted_password_of
from oncelog.lazy_dataclass import dataclass

ITERATION_COUNT = 4_096


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """What proves a token by one mechanism. `owner` is whom it speaks for, `lifetime_ms` how long it still holds."""

    owner: str
    lifetime_ms: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = ITERATION_COUNT


def derived_keys(mechanism: str, mac: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey (RFC 5802) of a token: some milliseconds of work."""
    hash_name = HASHES[mechanism]
    salted = salted_password_of(hash_name, base64.b64encode(mac).decode("ascii"), salt, ITERATION_COUNT)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return new_hash(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name)
