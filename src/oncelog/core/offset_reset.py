"""Where a consumer begins without a position: `auto.offset.reset`, with KIP-1106's `by_duration:PT1H`. Pure.

Durations are read as Java's `java.time.Duration.parse` reads them, which Apache Kafka hands them to (AutoOffsetResetStrategy).
"""

from __future__ import annotations

import re

STRATEGIES = ("latest", "earliest", "none")
BY_DURATION = "by_duration:"
EXAMPLE = "an ISO 8601 duration of days and time: PT1H, PT30M, P1DT12H"

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(?:T(?=[-+0-9])(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_S = (86_400, 3600, 60, 1)
_SECONDS_MAX = 2**63 - 1  # Java's long
_TEXT_LENGTH_MAX = 200


def duration_ms_of(text: str) -> int:
    """The milliseconds of an ISO 8601 duration such as `P1DT2H3M4.5S`, parts of one left out. Raises ValueError for what Java
    does not take, and for less than nothing."""
    match = _DURATION.fullmatch(text) if len(text) <= _TEXT_LENGTH_MAX else None
    if match is None or not any(match.groups()[1:5]):
        raise ValueError(f"expected {EXAMPLE}")
    sign, *parts, fraction = match.groups()
    seconds = sum(int(part or 0) * unit for part, unit in zip(parts, _UNITS_S, strict=True))
    nanoseconds = int((fraction or "").ljust(9, "0"))
    if (parts[-1] or "").startswith("-"):
        nanoseconds = -nanoseconds
    if abs(seconds) > _SECONDS_MAX:
        raise ValueError("it is longer than time")
    total = seconds * 1_000_000_000 + nanoseconds
    if sign == "-":
        total = -total
    if total < 0:
        raise ValueError("it is less than nothing: the past has no sign")
    return total // 1_000_000


def check_strategy(strategy: str) -> None:
    """Raises ValueError, which says what is expected, for a value that `auto.offset.reset` does not take."""
    if strategy.startswith(BY_DURATION):
        duration_ms_of(strategy.removeprefix(BY_DURATION))
    elif strategy not in STRATEGIES:
        raise ValueError(f"expected one of {', '.join(STRATEGIES)}, {BY_DURATION}PT1H")


def first_time_ms(strategy: str, now_ms: int) -> int | None:
    """With `by_duration`: the time of the first record that is wanted, 1970 at the earliest. None for another strategy."""
    if not strategy.startswith(BY_DURATION):
        return None
    return max(now_ms - duration_ms_of(strategy.removeprefix(BY_DURATION)), 0)
