"""The index of rules: which conversations show each rule of Kafka's protocol (`rules.txt`)."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

RULES = pathlib.Path(__file__).parent / "rules.txt"


@dataclass(frozen=True)
class Rule:
    """One rule: `shown_by` are patterns of conversations' names, or paths of tests."""

    name: str
    text: str
    shown_by: tuple[str, ...]


def read_rules() -> list[Rule]:
    """`name | what it says | conversations`, one a line; `#` begins a heading."""
    rules = []
    for line in RULES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, text, shown_by = (part.strip() for part in line.split("|"))
            rules.append(Rule(name, text, tuple(shown_by.split())))
    return rules
