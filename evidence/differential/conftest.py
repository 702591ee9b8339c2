"""Running brokers of each kind that a file's conversations ask for."""

from __future__ import annotations

import pytest

from evidence.differential.brokers import OncelogNode
from evidence.differential.scenario import KINDS, all_scenarios, kind_of, prepare


@pytest.fixture(scope="module")
def node_of(tmp_path_factory):
    """A running broker of each kind that is asked for."""
    nodes = {}

    def get(kind):
        if kind not in nodes:
            nodes[kind] = OncelogNode(tmp_path_factory.mktemp(kind), KINDS[kind].config)
            nodes[kind].start()
            prepare(nodes[kind], kind, [name for name in all_scenarios() if kind_of(name) == kind])
        return nodes[kind]

    yield get
    for node in nodes.values():
        node.stop()
