"""The pictures of docs/concepts.md are those that tools/pictures.py draws, and are sound SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from tools import pictures


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_file_is_current(name: str) -> None:
    assert (pictures.FOLDER / name).read_text(encoding="utf-8") == pictures.PICTURES[name], "python -m tools.pictures"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_each_is_sound_and_nothing_leaves_its_paper(name: str) -> None:
    root = ET.fromstring(pictures.PICTURES[name])
    height = float(root.attrib["viewBox"].split()[3])
    for each in root.iter("{http://www.w3.org/2000/svg}rect"):
        at = {key: float(each.attrib[key]) for key in ("x", "y", "width", "height")}
        assert at["x"] >= 0
        assert at["x"] + at["width"] <= pictures.WIDTH
        assert at["y"] + at["height"] <= height


def test_each_class_has_a_colour_in_the_dark_too() -> None:
    light, _, dark = pictures.STYLE.partition("@media")
    coloured = {
        name for name, rule in re.findall(r"\.(\w+)[^{]*\{([^}]*)\}", light) if "fill: #" in rule or "stroke: #" in rule
    }
    assert all(f".{name}" in dark for name in coloured)


def test_text_is_escaped() -> None:
    assert "a &lt; b" in pictures.sequence("t", ("x", "y"), (pictures.Step(0, 1, "a < b"),))
