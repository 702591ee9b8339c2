"""docs/broker-keys.md has every key of the broker, with a sentence about each."""

from __future__ import annotations

import re

import pytest
from tools import broker_keys_page as page

from oncelog.broker.config.config import Rule, rules


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python -m tools.broker_keys_page"


def test_every_key_has_one_row_under_a_heading() -> None:
    brokers, _, _ = page.render().partition("## Topics' keys")
    assert sorted(re.findall(r"^\| `([^`]+)` \|", brokers, re.MULTILINE)) == sorted(rules())
    assert brokers.count("\n## ") == len(page.GROUPS)


@pytest.mark.parametrize("key", rules())
def test_every_key_says_what_it_does(key: str) -> None:
    assert page.meaning(key).endswith(".")


def test_values_are_told_in_words() -> None:
    assert page.values(bool, Rule()) == "`true`, `false`"
    assert page.values(int, Rule(1, 17)) == "1 to 17"
    assert page.values(int, Rule(0)) == "0 or more"
    assert page.values(str, Rule(choices=("", "a"))) == "empty, `a`"
    assert page.values(str, Rule()) == ""
