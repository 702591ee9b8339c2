"""Name patterns: Python's `re` is the oracle where it can be, and time stays linear where it cannot."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.name_pattern import InvalidPattern, NamePattern

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "B",
        ".",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[]x]",
        "[^]x]",
        "[a-]",
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "[\\d_]",
        "\\.",
        "\\-",
        "^",
        "$",
        "-",
        "{",
        "é",
        "\\t",
        "[\\]\\\\]",
        "\\A",
    ]
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "{1,2}?"])


def groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    piece = st.builds(lambda kind, a, b, r: f"({kind}{a}|{b}){r}", st.sampled_from(["", "?:"]), inner, inner, REPEATS)
    return st.lists(piece | inner, min_size=1, max_size=3).map("".join)


SEQUENCES = st.lists(st.builds(lambda a, r: a if a in ("^", "$", "\\A") else a + r, ATOMS, REPEATS), max_size=4)
PATTERNS = st.recursive(SEQUENCES.map("".join), groups, max_leaves=5)
NAMES = st.text("abBcx1_.- é{]\\\t", max_size=8)


@given(PATTERNS, NAMES)
def test_as_python(pattern: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expected = re.fullmatch(pattern, name, re.ASCII) is not None
    assert NamePattern(pattern).matches(name) == expected


@given(st.text("ab(|)[]*+?{}\\^$.,-1d", max_size=12))
def test_every_text_is_a_pattern_or_invalid(text: str) -> None:
    try:
        pattern = NamePattern(text)
    except InvalidPattern:
        return
    assert pattern.matches("ab1") in (True, False)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("pay-.*", "pay-orders", True),
        ("(?i)PAY-[a-z]+", "pay-ORDERS", True),
        ("(?P<app>pay|bill)-\\d{2,3}", "bill-07", True),
        ("(?<app>pay)", "pay", True),
        ("pay", "pays", False),
        ("a\\z", "a", True),
        ("(a|)*b", "aab", True),
        ("(" * 100 + "a" + ")" * 100, "a", True),
    ],
)
def test_examples(pattern: str, name: str, expected: bool) -> None:
    assert NamePattern(pattern).matches(name) is expected


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "[]",
        "*",
        "a**",
        "(?=a)",
        "(?!a)",
        "\\1",
        "\\b",
        "a{2,1}",
        "a{1001}",
        "[b-a]",
        "\\",
        "(" * 200,
        "(" * 101 + "a" + ")" * 101,
        "((a{100}){100})",
        "(a{1000}){1000}",
        "(a{70}){70}b{300}",
        "a{1000}{1000}",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidPattern):
        NamePattern(text)


def test_no_pattern_stops_the_broker() -> None:
    """Each of these takes `re` longer than the universe has existed."""
    name = "a" * 30_000
    for text in ("(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)b", "a*a*a*a*a*a*b"):
        assert not NamePattern(text).matches(name)
        assert NamePattern(text).matches(name + "b")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("rxq[[:digit:]]", ["rxq1"], ["rxq.a", "rxqd", "rxq:"]),
        ("rxq[[:^digit:]].*", ["rxq-B_c", "rxq.a"], ["rxq1"]),
        ("rxq[[:punct:]]a", ["rxq.a"], ["rxqaa"]),
        ("[[:alpha:][:punct:]]+", ["rxq-B_c", "rxq.a"], ["rxq1"]),
        ("[^[:word:]]", ["-", "é"], ["a", "_", "1"]),
        ("(?i)[[:lower:]]", ["a", "A"], ["1"]),
        ("[[:upper:]-]", ["A", "-"], ["a"]),
        ("[[:]", ["[", ":"], ["a"]),
    ],
)
def test_the_classes_of_posix(pattern: str, matching: list[str], others: list[str]) -> None:
    """As RE2; they were read as sets of their letters, and matched other names in silence."""
    assert [each for each in (*matching, *others) if NamePattern(pattern).matches(each)] == matching


@pytest.mark.parametrize("pattern", ["[[:digits:]]", "[[::]]"])
def test_a_class_that_posix_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="there is no class"):
        NamePattern(pattern)
