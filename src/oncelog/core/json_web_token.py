"""A JSON Web Token (RFC 7519) in its compact form: read strictly, and judged by its claims. Signatures are not judged here.

Stricter than Apache Kafka: members that stand twice, numbers that are none, names that no text can hold and critical
extensions are refused wherever they stand, and a token that was issued in the future is not taken.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from oncelog.lazy_dataclass import dataclass

TOKEN_BYTES_MAX = 65_536
NAME_BYTES_MAX = 1_024
UNSIGNED = "none"

_PART = re.compile(r"[A-Za-z0-9_-]*")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TokenInvalid(ValueError):
    """A token that is not taken; says why, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class JsonWebToken:
    """A token whose signature nobody has looked at yet. `key_id` "": it names no key."""

    algorithm: str
    key_id: str
    claims: dict[str, Any] = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must claim. `audiences`, `issuer` empty: anything; `algorithms`: how it may be signed."""

    algorithms: Sequence[str]
    audiences: Sequence[str] = ()
    issuer: str = ""
    skew_s: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    needs_issued_at: bool = True


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Who a token is about, and until when (seconds since 1970) it holds."""

    user: str
    expires_s: float


def parse_token(text: str) -> JsonWebToken:
    """The parts of a token. Raises TokenInvalid."""
    if len(text) > TOKEN_BYTES_MAX:
        raise TokenInvalid(f"a token of {len(text)} characters is longer than {TOKEN_BYTES_MAX}")
    parts = text.split(".")
    if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        raise TokenInvalid("it is no token of three parts")
    header = _members(_decoded(parts[0]), "header")
    claims = _members(_decoded(parts[1]), "payload")
    if "crit" in header or "b64" in header:
        raise TokenInvalid("its header has an extension that must be understood, and is not")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or not isinstance(key_id, str):
        raise TokenInvalid("alg or kid in its header is no text")
    signed = f"{parts[0]}.{parts[1]}".encode("ascii")
    return JsonWebToken(algorithm, key_id, claims, signed, _decoded(parts[2]))


def holder_of(token: JsonWebToken, rules: TokenRules, now_s: float) -> TokenHolder:
    """Whom a token whose signature is right speaks for. Raises TokenInvalid."""
    claims = token.claims
    expires_s = _time(claims, "exp", is_needed=True)
    issued_s = _time(claims, "iat", is_needed=rules.needs_issued_at)
    begins_s = _time(claims, "nbf", is_needed=False)
    if expires_s is None or expires_s <= now_s:  # no skew: of a session nothing would be left
        raise TokenInvalid("it has expired")
    if issued_s is not None and issued_s > now_s + rules.skew_s:
        raise TokenInvalid("it was issued in the future")
    if begins_s is not None and begins_s > now_s + rules.skew_s:
        raise TokenInvalid("it does not hold yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenInvalid("its issuer is not the expected one")
    if rules.audiences and not _texts(claims.get("aud"), "aud").intersection(rules.audiences):
        raise TokenInvalid("it is for another audience")
    _texts(claims.get(rules.scope_claim, ""), rules.scope_claim)
    return TokenHolder(_name(claims.get(rules.sub_claim), rules.sub_claim), expires_s)


def expiry_of(text: str) -> float | None:
    """When a token says that it ends, in seconds since 1970; None where it cannot be read: it need not be of this kind."""
    try:
        return _time(parse_token(text).claims, "exp", is_needed=False)
    except TokenInvalid:
        return None


def claimed_name(token: JsonWebToken, rules: TokenRules) -> str:
    """Whom a token that was refused claimed to speak for, for the log; "" where that is no name."""
    try:
        return _name(token.claims.get(rules.sub_claim), rules.sub_claim)
    except TokenInvalid:
        return ""


def unsigned_token(claims: dict[str, Any]) -> str:
    """A token that proves nothing: for development, where a broker says that it takes such."""
    return f"{_encoded({'alg': UNSIGNED})}.{_encoded(claims)}."


def _encoded(members: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode("ascii").rstrip("=")


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise TokenInvalid("a part of it is not base64url") from None


def _members(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except TokenInvalid:
        raise
    except (ValueError, RecursionError):
        raise TokenInvalid(f"its {what} is not JSON") from None
    if not isinstance(found, dict):
        raise TokenInvalid(f"its {what} is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TokenInvalid("a member stands twice in it")
    return found


def _refuse(_name: str) -> Any:
    raise TokenInvalid("a number in it is none")


def _time(claims: dict[str, Any], name: str, *, is_needed: bool) -> float | None:
    value = claims.get(name)
    if value is None and not is_needed:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e15 < value < 1e15 or math.isnan(value):
        raise TokenInvalid(f"{name} is no time")
    return float(value)


def _texts(value: Any, name: str) -> set[str]:
    """One text or several of them; none of nothing."""
    every = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(every, list) or not all(isinstance(each, str) for each in every):
        raise TokenInvalid(f"{name} is neither a text nor a list of texts")
    return set(every)


def _name(value: Any, claim: str) -> str:
    if not isinstance(value, str) or not value.strip() or _CONTROL.search(value):
        raise TokenInvalid(f"{claim} is no name")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise TokenInvalid(f"{claim} is no name") from None
    if size_bytes > NAME_BYTES_MAX:
        raise TokenInvalid(f"{claim} is longer than {NAME_BYTES_MAX} bytes")
    return value
