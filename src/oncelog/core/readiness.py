"""The body of `/readyz`: one broker's, and that of `serve --processes`, which adds up what its processes say."""

from __future__ import annotations

_READY = "ready"
_OFFLINE = "; offline partitions: "


def readiness_body(offline_count: int) -> str:
    """What a broker that serves requests answers."""
    return f"{_READY}{_OFFLINE}{offline_count}\n" if offline_count else f"{_READY}\n"


def offline_count_of(body: str) -> int:
    """How many partitions are offline, by a `readiness_body`. Raises ValueError where it is none."""
    ready, _, count = body.rstrip("\n").partition(_OFFLINE)
    if ready != _READY:
        raise ValueError(f"not the answer of a broker that serves requests: {body[:80]!r}")
    return int(count or 0)
