"""Every recorded conversation again, with oncelog: the answers are Apache Kafka's, or the page of differences names it."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.differential.brokers import OncelogNode
from tests.differential.record import difference, recorded
from tests.differential.scenario import all_scenarios, sections, transcript, warm_up

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "differences-from-kafka.md"
RECORDED = recorded()
DIFFERENCES = sections((HERE / "differences.txt").read_text())


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with OncelogNode(tmp_path_factory.mktemp("differential"), transaction_two_phase_commit_enable=True) as node:
        warm_up(node)
        yield node


@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_conversation(node, name):
    assert difference(RECORDED[name], transcript(node, name)) == DIFFERENCES.get(name, [])


def test_every_conversation_is_recorded():
    assert set(RECORDED) == set(all_scenarios())


def test_the_page_explains_every_difference_and_no_other():
    """The table of conversations in docs/differences-from-kafka.md is what differs, neither more nor less."""
    section = PAGE.read_text().split("## Recorded conversations that differ")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(explained) == sorted(DIFFERENCES)
    assert all(DIFFERENCES.values()), "a section without lines is no difference"
