"""What a rule finds."""

from __future__ import annotations

from typing import Any

from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding: `text` is for a person, `witness` (operation indexes, key, offsets, values) for a machine."""

    name: str
    text: str
    witness: dict[str, Any]
    fails: bool = True
