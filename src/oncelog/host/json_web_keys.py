"""Public keys of an identity provider (a JWK set, RFC 7517), and signatures under them: the only place that knows `joserfc`.

RSA from 2,048 bits and the three NIST curves, for RS, PS and ES algorithms. Secrets and private parts in a set are left
out, so nothing here can be taken for a key of HMAC.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from oncelog.lazy_dataclass import dataclass

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
KEYS_MAX = 100
KEYS_TRIED_MAX = 10  # where a token names none
RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 8_192
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y")}
_CURVES = ("P-256", "P-384", "P-521")

GOOD = ""
UNKNOWN_KEY = "no key has its kid"
NO_KEY = "no key fits its algorithm"
WRONG = "its signature is wrong"


class KeysInvalid(Exception):
    """A key set that cannot be used; one line without anything of its content."""


@dataclass(frozen=True, slots=True)
class _Key:
    key_id: str
    algorithm: str  # "" for any that fits
    key: Any = field(repr=False)


def check_library() -> None:
    """Raises KeysInvalid where `joserfc` is not there."""
    try:
        import joserfc.jws  # noqa: F401
    except ImportError:
        raise KeysInvalid("OAUTHBEARER needs joserfc: pip install oncelog[security]") from None


class JsonWebKeys:
    """One key set as it was read."""

    def __init__(self, keys: Sequence[_Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def parse(cls, text: bytes) -> JsonWebKeys:
        """The keys for signatures in a set; others are left out. Raises KeysInvalid where none is left."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise KeysInvalid("it is no JSON") from None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list):
            raise KeysInvalid('it has no list of "keys"')
        if len(keys) > KEYS_MAX:
            raise KeysInvalid(f"there are {len(keys)} keys in it, and {KEYS_MAX} are taken")
        usable = [key for each in keys if isinstance(each, dict) and (key := _key(each)) is not None]
        if not usable:
            raise KeysInvalid("there is no key for signatures in it (RSA from 2048 bits, P-256, P-384, P-521)")
        return cls(usable)

    def verdict(self, algorithm: str, key_id: str, signed: bytes, signature: bytes) -> str:
        """GOOD, or what is wrong with a signature. `algorithm` must be one of ALGORITHMS."""
        from joserfc.errors import JoseError
        from joserfc.jws import JWSRegistry

        assert algorithm in ALGORITHMS
        named = [key for key in self._keys if key_id in ("", key.key_id)]
        if not named:
            return UNKNOWN_KEY
        method = JWSRegistry.algorithms[algorithm]
        tried = 0
        for each in named:
            try:
                method.check_key(each.key)
            except JoseError:
                continue
            if each.algorithm not in ("", algorithm):
                continue
            tried += 1
            if tried > KEYS_TRIED_MAX:
                break
            if method.verify(signed, signature, each.key):
                return GOOD
        return WRONG if tried else NO_KEY


def _key(members: Mapping[str, Any]) -> _Key | None:
    """A key of a set, None where it is none that is used."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    kind, key_id, algorithm = members.get("kty"), members.get("kid", ""), members.get("alg", "")
    operations = members.get("key_ops", ["verify"])
    if (
        not isinstance(kind, str)
        or kind not in _PUBLIC
        or members.get("use", "sig") != "sig"
        or not isinstance(key_id, str)
    ):
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if algorithm not in ("", *ALGORITHMS):
        return None
    public = {name: value for name in _PUBLIC[kind] if isinstance(value := members.get(name), str)}
    if len(public) < len(_PUBLIC[kind]):
        return None
    if kind == "EC" and public["crv"] not in _CURVES:
        return None
    if kind == "RSA" and not RSA_BITS_MIN // 8 <= len(public["n"]) * 3 // 4 <= RSA_BITS_MAX // 8:
        return None  # before the library has to warn of it
    try:
        key: Any = import_key({"kty": kind, **public})
        if kind == "RSA" and key.public_key.key_size < RSA_BITS_MIN:
            return None
    except (JoseError, ValueError, TypeError):
        return None
    return _Key(key_id, algorithm, key)
