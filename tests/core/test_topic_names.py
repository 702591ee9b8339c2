"""Names that a topic can have, and why others cannot."""

from __future__ import annotations

import pytest

from oncelog.core.topic_names import topic_name_fault


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "..."])
def test_names(name: str) -> None:
    assert topic_name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "empty"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "ASCII"),
        ("a/b", "ASCII"),
        ("ä", "ASCII"),
        ("\u0661", "ASCII"),
    ],
)
def test_what_is_none(name: str, says: str) -> None:
    assert says in str(topic_name_fault(name))
