"""What a drill gives, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scale:
    """Short ones are for every `make conformance`, full ones for a release."""

    is_full: bool

    def pick(self, *, short: int, full: int) -> int:
        return full if self.is_full else short


@dataclass
class Outcome:
    """`figures` for the page; `problems` empty when everything is as it must be."""

    figures: str
    problems: list[str] = field(default_factory=list)
