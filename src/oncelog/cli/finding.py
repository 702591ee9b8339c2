"""What one check of `oncelog doctor` found."""

from __future__ import annotations

from oncelog.lazy_dataclass import dataclass

OK, WARNING, FAILURE = "ok", "warning", "failure"


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: str
    found: str
    advice: str = ""
