"""Versions of batch writes that are one number and two texts."""

from __future__ import annotations

import re
from collections.abc import Iterable


def spelt_otherwise(version: str, others: Iterable[str]) -> str | None:
    """One of `others` that is the same number in another spelling (`1`, `01`, `+1`): a version is compared as text, and what was
    written under the one would be written again under the other."""
    number = _canonical(version)
    return None if number is None else next((i for i in others if i != version and _canonical(i) == number), None)


def _canonical(version: str) -> str | None:
    """A whole number as it is spelt most shortly, however long; None for other texts."""
    found = re.fullmatch(r"\s*([+-]?)([0-9]+)\s*", version)
    if found is None:
        return None
    digits = found[2].lstrip("0")
    return f"{found[1].replace('+', '')}{digits}" if digits else "0"
