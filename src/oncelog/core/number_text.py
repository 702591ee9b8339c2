"""Numbers in texts that somebody wrote: as Java reads them, and without the underscores of Python's source code."""

from __future__ import annotations


def whole_number(text: str) -> int:
    """`Long.parseLong`, of any size. Raises ValueError."""
    return int(_written(text))


def number(text: str) -> float:
    """`Double.parseDouble`. Raises ValueError."""
    return float(_written(text))


def _written(text: str) -> str:
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return text
