"""A client's side of OAUTHBEARER (RFC 7628): the token in one message, and the goodbye that a refusal asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from oncelog.core.json_web_token import TOKEN_BYTES_MAX

_TOKEN = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_SEPARATOR = "\x01"


class BearerInvalid(ValueError):
    """A token or extension that cannot be sent; says which, and nothing of a token."""


class BearerLogin:
    """One conversation."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        """Raises BearerInvalid."""
        if len(token) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
            raise BearerInvalid("the token has letters that no bearer token has, or is too long")
        self._message = f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{extensions_text(extensions)}{_SEPARATOR}"

    def first(self) -> bytes:
        """Token and extensions."""
        return self._message.encode("ascii")

    def next(self, token: bytes) -> bytes | None:
        """Nothing; behind an error document the goodbye, which the broker then answers with its error."""
        return _SEPARATOR.encode() if token else None


def extensions_text(extensions: Mapping[str, str]) -> str:
    """As they stand in the message. Raises BearerInvalid."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name.lower() == "auth" or not _EXTENSION_VALUE.fullmatch(value):
            raise BearerInvalid(f"extension {name[:40]!r}: names are letters (not auth), values printable")
    return "".join(f"{name}={value}{_SEPARATOR}" for name, value in extensions.items())
