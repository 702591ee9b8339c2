"""UUIDs as Kafka writes them: URL-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

UUID_BYTES = 16


def uuid_text(uuid: bytes) -> str:
    """22 characters."""
    return urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from(text: str) -> bytes:
    """The 16 bytes of what `uuid_text` wrote. Raises ValueError."""
    try:
        uuid = urlsafe_b64decode(text + "==")
    except (ValueError, UnicodeEncodeError) as error:
        raise ValueError(f"{text[:40]!r} is no UUID") from error
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"{text[:40]!r} is no UUID")
    return uuid
