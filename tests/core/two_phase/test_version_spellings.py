"""Versions of batch writes that are one number and two texts."""

from __future__ import annotations

import pytest

from oncelog.core.two_phase.version_spellings import spelt_otherwise


@pytest.mark.parametrize(
    ("version", "others", "found"),
    [
        ("01", ["2", "1"], "1"),
        ("1", ["1", "+1"], "+1"),
        ("-0", ["00"], "00"),
        ("0", ["-1", "1"], None),
        ("-1", ["1", " -01"], " -01"),
        ("1", ["1"], None),
        ("1" + "0" * 5000, ["01" + "0" * 5000], "01" + "0" * 5000),
        ("a", ["A", "0a"], None),
        ("\u0661", ["1"], None),
    ],
)
def test_a_number_is_known_in_each_spelling(version: str, others: list[str], found: str | None) -> None:
    assert spelt_otherwise(version, others) == found
