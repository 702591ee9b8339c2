"""Times as people write and read them: durations such as `15m`, moments in ISO 8601 UTC, ages such as `21m04s`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from oncelog.core.ages import age_text

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


TEXT_LENGTH_MAX = 40  # a longer number would not even be a number of milliseconds


def duration_from_text(text: str) -> int:
    """Milliseconds of `500ms`, `30s`, `15m`, `1h30m`, `2d`; a bare number is seconds. Raises ValueError."""
    stripped = text.strip().lower()
    if len(stripped) > TEXT_LENGTH_MAX:
        raise ValueError(f"{text[:20]!r}... is no duration; it is too long")
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return round(float(stripped) * 1000)
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise ValueError(f"{text!r} is no duration; write 500ms, 30s, 15m, 2h, 1h30m or 2d")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def duration_text(duration_ms: int | None) -> str:
    """A duration for a person: `850ms`, `4.2s`, `21m04s`, `3h05m`, `2d04h`; `-` for none."""
    if duration_ms is None or duration_ms < 0:
        return "-"
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 10_000:
        return f"{duration_ms / 1000:.1f}s"
    return age_text(duration_ms)


def moment_text(timestamp_ms: int | None) -> str:
    """A moment in UTC, `2026-11-21T03:07:49.120Z`; `-` for none and for what no calendar holds."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "-"
    try:
        moment = _BEGINNING + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03}Z"


def moment_from_text(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 moment (UTC where it names no zone) or a number. Raises ValueError."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a moment is written as 2026-01-31 or 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _BEGINNING) // timedelta(milliseconds=1)


def record_time_from_text(text: str) -> int:
    """The same of a time that a record can have. Raises ValueError."""
    moment = moment_from_text(text)
    if not 0 <= moment < 2**63:
        raise ValueError("no record has that time")
    return moment


class Duration(click.ParamType[int]):
    """An option's value in milliseconds, written as a duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return duration_from_text(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()
