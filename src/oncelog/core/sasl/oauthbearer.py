"""OAUTHBEARER (RFC 7628): `n,[a=NAME],^Aauth=Bearer TOKEN[^Ak=v]*^A^A`, one message; a refusal takes two.

What a token proves is asked through `verify`. A token that is refused is answered with an error document and no error;
only `^A` may follow, and then the authentication has failed. Apache Kafka takes another token there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from oncelog.core.json_web_token import TOKEN_BYTES_MAX
from oncelog.core.sasl.exchange import Challenge, Outcome, Proven, Refused
from oncelog.lazy_dataclass import dataclass

MESSAGE_BYTES_MAX = TOKEN_BYTES_MAX + 8_192
DOCUMENT = '{"status":"invalid_token"}'
INVALID = "authentication failed: invalid credentials for SASL mechanism OAUTHBEARER"
GOODBYE = b"\x01"

_SEPARATOR = "\x01"
_HEADER = re.compile(r"n,(?:a=((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_PAIR = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_BEARER = re.compile(r"bearer +([-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verified:
    """A token holds for `lifetime_ms` more, of this user."""

    user: str
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class NotVerified:
    """It does not: `reason` and the name it claims for the log."""

    reason: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A client's first message."""

    authorization_id: str
    token: str = field(repr=False)
    extensions: dict[str, str] = field(repr=False)


class BearerMessageInvalid(ValueError):
    """A message that breaks the grammar or a bound; says which, and nothing of what was sent."""


def parse_client_message(message: bytes) -> ClientMessage:
    """Raises BearerMessageInvalid."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise BearerMessageInvalid(f"a message of {len(message)} bytes is longer than {MESSAGE_BYTES_MAX}")
    text = message.decode("latin-1")  # whatever is no ASCII fits no pattern
    header = _HEADER.match(text)
    rest = text[header.end() :] if header is not None else ""
    if header is None or not rest.startswith(_SEPARATOR) or not rest.endswith(_SEPARATOR * 2):
        raise BearerMessageInvalid("a message that is not of OAUTHBEARER's form")
    pairs: dict[str, str] = {}
    for part in rest[1:-2].split(_SEPARATOR):
        pair = _PAIR.fullmatch(part)
        if pair is None or pair[1] in pairs:
            raise BearerMessageInvalid("a message that is not of OAUTHBEARER's form")
        pairs[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(pairs.pop("auth", ""))
    if bearer is None:
        raise BearerMessageInvalid("no bearer token in the message")
    name = (header[1] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientMessage(name, bearer[1], pairs)


class BearerExchange:
    """One conversation."""

    def __init__(self, verify: Callable[[str], Verified | NotVerified]) -> None:
        self._verify = verify
        self._refused: Refused | None = None

    def respond(self, token: bytes) -> Outcome:
        """Proven, or a challenge that says no and the refusal behind it."""
        if self._refused is not None:
            return self._refused if token == GOODBYE else Refused(INVALID, "another message behind a refused token")
        try:
            message = parse_client_message(token)
        except BearerMessageInvalid as error:
            return Refused(INVALID, str(error))
        found = self._verify(message.token)
        if isinstance(found, NotVerified):
            self._refused = Refused(DOCUMENT, f"token: {found.reason}", found.user)
            return Challenge(DOCUMENT.encode())
        if message.authorization_id not in ("", found.user):
            words = "authentication failed: the authorization id is another than the token's"
            return Refused(words, "another authorization id", found.user)
        return Proven(found.user, lifetime_ms=found.lifetime_ms)
