"""What a process of several tells the others of its own partitions that are offline (`offline_elsewhere` has theirs)."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.types import TopicPartition
from oncelog.wire.metadata_link import Offline


class OfflineHere:
    """What this process has told last; None before everything here is recovered."""

    def __init__(self) -> None:
        self.told: Offline | None = None

    def news(self, node_id: int, partitions: Collection[TopicPartition]) -> Offline | None:
        """What to tell; None where it was told before."""
        now = Offline(node_id, tuple(sorted(partitions)))
        if now == self.told:
            return None
        self.told = now
        return now
