"""Ages and times, as people read them at a glance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_000  # of the year 9999: whoever writes a record chooses its time


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


def clock_text(at_ms: int) -> str:
    """A time of day in UTC, `13:08:40`."""
    seconds = at_ms // 1000 % 86_400
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def moment_text(at_ms: int) -> str:
    """A date and a time in UTC, `2026-01-31 13:08:40`."""
    return f"{EPOCH + timedelta(milliseconds=min(max(at_ms, 0), LAST_MS)):%Y-%m-%d %H:%M:%S}"
