"""Who coordinates which group and transactional id, as a client found out: bounded, as it may meet thousands of them a day."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.types import CoordinatorKey, Node

COORDINATORS_MAX = 4096


class KnownCoordinators:
    """Those that were asked for last; another one is found again."""

    def __init__(self) -> None:
        self._nodes: dict[CoordinatorKey, Node] = {}  # the one asked for last at the end

    def of(self, key: CoordinatorKey | None) -> Node | None:
        """Who serves it; None where that is not known (any more)."""
        node = None if key is None else self._nodes.pop(key, None)
        if key is not None and node is not None:
            self._nodes[key] = node
        return node

    def found(self, key: CoordinatorKey, node: Node) -> Node:
        """A broker said so."""
        self._nodes.pop(key, None)
        if len(self._nodes) >= COORDINATORS_MAX:
            del self._nodes[next(iter(self._nodes))]
        self._nodes[key] = node
        return node

    def forget(self, key: CoordinatorKey) -> None:
        """It moved, or does not answer."""
        self._nodes.pop(key, None)

    def nodes(self) -> Collection[Node]:
        """All who serve something."""
        return self._nodes.values()
