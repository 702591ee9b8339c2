"""The colours of the lanes, for light and dark paper; the console's style sheet has the same (a test compares them).

At least 3:1 against paper and band for what is drawn, 4.5:1 for text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Palette: TypeAlias = Mapping[str, str]

LIGHT: Palette = {
    "paper": "#ffffff",
    "panel": "#f5f7f9",
    "line": "#d5dae0",
    "fg": "#1b1f24",
    "mute": "#5b6570",
    "committed": "#007f5b",
    "aborted": "#b35900",
    "progress": "#0072b2",
    "prepared": "#a2457f",
    "hanging": "#b00020",
    "band": "#faeec8",
    "edge": "#7d5f00",
}
DARK: Palette = {
    "paper": "#14181d",
    "panel": "#1c2229",
    "line": "#2f3740",
    "fg": "#e6eaef",
    "mute": "#9aa5b1",
    "committed": "#2fc39a",
    "aborted": "#f0963c",
    "progress": "#5ab4f0",
    "prepared": "#e08cc0",
    "hanging": "#ff6b7d",
    "band": "#3b3524",
    "edge": "#f0c040",
}
DRAWN = ("committed", "aborted", "progress", "prepared", "hanging", "edge")
GROUNDS = ("paper", "panel", "band")
WRITTEN = (  # which colour is text on which ground
    *((name, ground) for name in ("fg", "mute") for ground in GROUNDS),
    *((name, "panel") for name in ("committed", "edge", "hanging")),
    *((name, "paper") for name in ("committed", "aborted", "progress", "prepared", "hanging")),
    ("edge", "band"),
)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours `#rrggbb`, 1 to 21 (WCAG 2.2)."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
