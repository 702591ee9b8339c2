"""Quotas in words: of whom they are, and numbers without an exponent."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT = "default"


def entity_text(entity: Mapping[str, str | None]) -> str:
    """`user alice, client-id default`."""
    return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity.items())


def number_text(value: float) -> str:
    """`1234567`, `0.5`: as many digits as a double has, where `:g` gives six."""
    return f"{value:.15g}"
