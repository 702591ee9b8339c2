"""The tables of this part on docs/compatibility.md, from what was saved."""

from __future__ import annotations

from collections import Counter
from typing import Any

Outcome = dict[str, Any]


def count(found: dict[str, dict[str, Outcome]]) -> Counter[str]:
    """Results by their name."""
    return Counter(outcome["result"] for outcomes in found.values() for outcome in outcomes.values())
