"""Reads the container file of packaging/ for the tests."""

from __future__ import annotations

from tools.distribution import ROOT


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the container file with its words, continued lines joined, comments left out."""
    text = (ROOT / "packaging/Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def containerfile() -> dict[str, str]:
    """The last of each kind of instruction, which is the one in force."""
    return dict(instructions())
