"""The recorded conversations that need a broker of their own kind: another configuration, or changes to the whole of it."""

from __future__ import annotations

import pytest

from evidence.differential.record import DIFFERENCES, difference, recorded
from evidence.differential.scenario import all_scenarios, kind_of, sections, transcript

RECORDED = recorded()
DIFFERING = sections(DIFFERENCES.read_text())
UNUSUAL = sorted(
    (name for name in all_scenarios() if kind_of(name) != "default"), key=lambda name: (kind_of(name), name)
)


@pytest.mark.parametrize("name", UNUSUAL)
def test_conversation(node_of, name):
    assert difference(RECORDED[name], transcript(node_of(kind_of(name)), name)) == DIFFERING.get(name, [])
