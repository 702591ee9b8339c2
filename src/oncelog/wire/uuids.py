"""UUIDs as Kafka writes them: URL-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64encode


def uuid_text(uuid: bytes) -> str:
    """22 characters."""
    return urlsafe_b64encode(uuid).decode("ascii").rstrip("=")
