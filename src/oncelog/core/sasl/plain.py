"""PLAIN (RFC 4616): `authzid NUL user NUL password`, against users of the configuration.

Passwords are compared as digests, in the same time for users who exist and others.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

from oncelog.core.sasl.exchange import Outcome, Proven, Refused

WRONG = "authentication failed: invalid user name or password"
PLAIN_BYTES_MAX = 65_536


def digests_of(passwords: Mapping[str, str]) -> dict[str, bytes]:
    """What is kept of the users of a configuration."""
    return {user: sha256(password.encode()).digest() for user, password in passwords.items()}


class PlainExchange:
    """The one message there is."""

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = digests

    def respond(self, token: bytes) -> Outcome:
        """Proven or refused, at once."""
        if len(token) > PLAIN_BYTES_MAX:
            return Refused("invalid SASL/PLAIN response: too long", f"a message of {len(token)} bytes")
        try:
            parts = token.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            return Refused("invalid SASL/PLAIN response: not UTF-8", "a message that is not UTF-8")
        if len(parts) != 3:
            return Refused("invalid SASL/PLAIN response: expected 3 parts", f"a message of {len(parts)} parts")
        authorization_id, user, password = parts
        if not user:
            return Refused("authentication failed: the user name is empty", "no user name")
        if not password:
            return Refused("authentication failed: the password is empty", "no password", user)
        kept = self._digests.get(user)
        is_right = hmac.compare_digest(sha256(password.encode()).digest(), kept or bytes(32))
        if kept is None or not is_right:
            return Refused(WRONG, "unknown user" if kept is None else "wrong password", user)
        if authorization_id not in ("", user):
            return Refused("authentication failed: the authorization id is another", "another authorization id", user)
        return Proven(user)
