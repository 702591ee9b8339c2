"""The topics that a producer sends to, for the metadata that its cluster keeps: whoever has a record waiting is in use."""

from __future__ import annotations

from oncelog.client.producer.appending import Appender
from oncelog.core.producer.accumulator import RecordAccumulator
from oncelog.core.producer.forgetting import forget_topics
from oncelog.core.producer.partitioner import StickyPartitioner
from oncelog.core.producer.transaction_manager import TransactionManager


class ProducedTopics:
    """A `TopicUser`."""

    def __init__(
        self,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
        sticky: StickyPartitioner,
        appender: Appender,
    ) -> None:
        self._manager, self._accumulator = manager, accumulator
        self._sticky, self._appender = sticky, appender

    def topics_in_use(self, since_ms: float) -> set[str]:
        """What was sent to since then, or is still to be sent to."""
        return self._accumulator.topics_since(since_ms)

    def topics_to_create(self) -> set[str]:
        """What records wait for."""
        return self._accumulator.topics()

    def topics_forgotten(self, names: set[str]) -> None:
        """Nothing was sent to these for long."""
        self._appender.forget(names)
        forget_topics(names, self._manager, self._accumulator, self._sticky)
