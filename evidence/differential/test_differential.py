"""Every recorded conversation again, with oncelog: the answers are Apache Kafka's, or the page of differences names it."""

from __future__ import annotations

import fnmatch
import pathlib
import re

import pytest

from evidence.compat.stories_of_tools import MASKED
from evidence.differential.record import DIFFERENCES as DIFFERENCES_FILE
from evidence.differential.record import difference, recorded
from evidence.differential.rules import read_rules
from evidence.differential.scenario import all_scenarios, kind_of, sections, transcript

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "differences-from-kafka.md"
RECORDED = recorded()
DIFFERENCES = sections(DIFFERENCES_FILE.read_text())
SCENARIOS = list(all_scenarios())
USUAL = sorted(name for name in all_scenarios() if kind_of(name) == "default")


@pytest.mark.parametrize("name", USUAL)
def test_conversation(node_of, name):
    assert difference(RECORDED[name], transcript(node_of("default"), name)) == DIFFERENCES.get(name, [])


def test_every_conversation_is_recorded():
    assert set(RECORDED) == set(all_scenarios())


def test_no_recorded_conversation_broke_off():
    assert [name for name, lines in RECORDED.items() if any(line.startswith("# broke off") for line in lines)] == []


def test_the_page_explains_every_difference_and_no_other():
    """The table of conversations in docs/differences-from-kafka.md is what differs, neither more nor less."""
    section = PAGE.read_text().split("## Recorded conversations that differ")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `([\w*]+)` \|", section, re.MULTILINE)
    unexplained = [name for name in DIFFERENCES if not any(fnmatch.fnmatch(name, each) for each in explained)]
    assert unexplained == []
    assert [each for each in explained if not fnmatch.filter(DIFFERENCES, each)] == [], "explains what does not differ"
    assert all(DIFFERENCES.values()), "a section without lines is no difference"


def test_the_page_names_every_field_that_comparisons_leave_out():
    """What is masked because the two brokers mean something else by it (evidence/compat/stories_of_tools.py)."""
    masked = [name for pattern, by in MASKED if not by for name in re.findall(r"[A-Za-z]{3,}", pattern.pattern)]
    assert masked == ["previousProducerId"]
    assert [name for name in masked if f"`{name}`" not in PAGE.read_text()] == []


def test_the_page_says_where_each_decision_is_shown():
    """The last column of its tables of gaps and defects names conversations, or tests."""
    decided = PAGE.read_text().split("## Residual gaps")[1].split("## Smaller ones")[0]
    cells = re.findall(r"^\|.*\|([^|]*)\|$", decided, re.MULTILINE)
    rows = [cell for cell in cells if cell.strip(" -") not in ("", "shown by")]
    assert len(rows) > 35
    for cell in rows:
        names = re.findall(r"`([^`]+)`", cell)
        assert names, cell
        for name in names:
            assert (ROOT / name).exists() if "/" in name else fnmatch.filter(SCENARIOS, name), name


def test_every_rule_is_shown_by_a_conversation():
    """rules.txt names what shows each rule: conversations, or a file of tests where no request can reach the rule."""
    rules = read_rules()
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.shown_by, rule.name
        for each in rule.shown_by:
            is_there = (ROOT / each).exists() if "/" in each else bool(fnmatch.filter(SCENARIOS, each))
            assert is_there, f"{rule.name}: {each}"


def test_every_conversation_shows_a_rule():
    patterns = [each for rule in read_rules() for each in rule.shown_by]
    assert [name for name in SCENARIOS if not any(fnmatch.fnmatch(name, each) for each in patterns)] == []
