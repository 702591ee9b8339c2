"""Ages and times, as people read them at a glance."""

from __future__ import annotations

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
    at_ms = min(max(at_ms, 0), LAST_MS)
    # Years that begin in March: the leap day is their last one, and months have their lengths in a pattern of five.
    era, day = divmod(at_ms // 86_400_000 + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month, year = (month + 3, year) if month < 10 else (month - 9, year + 1)
    return f"{year + 400 * era:04}-{month:02}-{day + 1:02} {clock_text(at_ms)}"
