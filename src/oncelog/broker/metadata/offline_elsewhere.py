"""Which partitions are offline in the other processes of one cluster (`oncelog serve --processes N`), as each of them has told.

Only the process that leads a partition knows that its disk failed or that it is damaged; Metadata is asked of anybody. Each tells
the controller over the metadata link, which tells all others, as the controller of an Apache Kafka cluster does. Not stored:
it is told again with each start. What a process told stays in force while it is away, since nobody serves its partitions then.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog.types import TopicPartition


class OfflineElsewhere:
    """By process, and all together."""

    def __init__(self) -> None:
        self.by_node: dict[int, frozenset[TopicPartition]] = {}
        self._all: frozenset[TopicPartition] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self._all

    def told(self, node_id: int, partitions: Collection[TopicPartition]) -> None:
        """All that is offline in one of the processes."""
        self.by_node[node_id] = frozenset(partitions)
        self._all = frozenset().union(*self.by_node.values())
