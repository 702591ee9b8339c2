"""Colours can be told from the paper: 3:1 for what is drawn, 4.5:1 for text, on paper and in the band."""

from __future__ import annotations

import pytest

from oncelog.core.lanes.palette import DARK, DRAWN, GROUNDS, LIGHT, WRITTEN, Palette, contrast


def test_the_ratio_is_that_of_wcag() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_stands_out(palette: Palette) -> None:
    pale = {(name, ground) for name in DRAWN for ground in GROUNDS if contrast(palette[name], palette[ground]) < 3}
    faint = {(name, ground) for name, ground in WRITTEN if contrast(palette[name], palette[ground]) < 4.5}
    assert pale == set()
    assert faint == set()
