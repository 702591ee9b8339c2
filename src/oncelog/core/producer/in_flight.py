"""How many Produce requests may be on their way, and to whom: Kafka's `max.in.flight.requests.per.connection`.

With idempotence up to five may be in flight and the order is kept by sequences; without it one batch per partition is
on its way at a time, so a retry can never overtake its successor.
"""

from __future__ import annotations

from oncelog.core.producer.batch import ProducerBatch
from oncelog.types import TopicPartition

IN_FLIGHT_MAX_WITH_IDEMPOTENCE = 5  # the leader remembers five batches of each producer (KIP-98)


class RequestsInFlight:
    """Counts requests per node and, without idempotence, mutes partitions."""

    def __init__(self, *, per_connection_max: int, is_idempotent: bool) -> None:
        assert not is_idempotent or per_connection_max <= IN_FLIGHT_MAX_WITH_IDEMPOTENCE
        self._per_connection_max = per_connection_max
        self._is_idempotent = is_idempotent
        self._counts: dict[int, int] = {}
        self._muted: set[TopicPartition] = set()

    def __len__(self) -> int:
        return sum(self._counts.values())

    def may_send_to(self, node_id: int) -> bool:
        """Whether another request may go to the node."""
        return self._counts.get(node_id, 0) < self._per_connection_max

    def is_muted(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition must wait for the batch that is on its way."""
        return topic_partition in self._muted

    def sent(self, node_id: int, batches: list[ProducerBatch]) -> None:
        """One request with these batches left."""
        self._counts[node_id] = self._counts.get(node_id, 0) + 1
        if not self._is_idempotent:
            self._muted.update(batch.topic_partition for batch in batches)

    def answered(self, node_id: int, batches: list[ProducerBatch]) -> None:
        """Its response came, or it is lost."""
        self._counts[node_id] -= 1
        if not self._counts[node_id]:
            del self._counts[node_id]
        self._muted.difference_update(batch.topic_partition for batch in batches)
