"""All coordinators of one kind on this node: one per partition of their internal topic, loaded from it on first use."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic

from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed, M
from oncelog.broker.coordinators.coordinator_load import loading
from oncelog.broker.coordinators.load_times import LoadTimes
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition


class CoordinatorTable(ABC, Generic[M]):
    """The coordinators behind the partitions of `topic_name`."""

    def __init__(self, topic_name: str, partitions: Partitions, topics: Topics) -> None:
        self._topic_name = topic_name
        self._partitions = partitions
        self._topics = topics
        self._coordinators: dict[int, Coordinator[M]] = {}
        self.load_times = LoadTimes()

    @abstractmethod
    def _loaded_from(self, partition: LocalPartition, index: int) -> Coordinator[M]:
        """Read a partition through the machine's `apply`, the one that runs live."""

    def loaded(self) -> Iterator[Coordinator[M]]:
        """The coordinators in use, in the order of their partitions."""
        return iter([each for _, each in sorted(self._coordinators.items())])

    @property
    def key_count(self) -> int:
        """How many transactional ids or groups all loaded coordinators know."""
        return sum(len(each.machine) for each in self._coordinators.values())

    def existing(self, index: int) -> Coordinator[M] | None:
        """The coordinator of a partition if it is in use."""
        return self._coordinators.get(index)

    def coordinator(self, index: int) -> Coordinator[M]:
        """The coordinator of a partition, loaded now if it is not yet. Raises CoordinatorFailed."""
        coordinator = self._coordinators.get(index)
        if coordinator is None:
            name = TopicPartition(self._topic_name, index)
            with self.load_times.measured(), loading(self._partitions, name) as partition:
                coordinator = self._coordinators[index] = self._loaded_from(partition, index)
        if coordinator.partition.is_offline:
            raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)
        return coordinator

    async def coordinator_of(self, key: str) -> Coordinator[M]:
        """The coordinator of a group or transactional id. Raises CoordinatorFailed."""
        try:
            topic = await self._topics.internal(self._topic_name)
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        return self.coordinator(coordinator_partition(key, topic.partition_count))

    def load_all(self) -> None:
        """Load every coordinator whose partition holds something."""
        for partition in self._partitions.of_topic(self._topic_name):
            if partition.log_end_offset > 0:
                with contextlib.suppress(CoordinatorFailed):  # it is offline and has said why
                    self.coordinator(partition.name.partition)
