"""Ages, as people read them at a glance."""

from __future__ import annotations


def age_text(age_ms: int) -> str:
    """An age for a person: `0s`, `59s`, `4m12s`, `3h05m`, `2d04h`."""
    seconds = max(0, age_ms) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02}h"
