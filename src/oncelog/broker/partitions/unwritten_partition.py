"""A partition that was never written: read from memory, with nothing on disk.

All of them are alike, so they share one set of rules, which no reader changes. Only who waits for a first record is kept, by the
partition's name, and goes over to the real one when that is made.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.broker.partitions.local_partition import LocalPartition, Watcher
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.topic_configs import TopicSettings
from oncelog.lazy_dataclass import dataclass
from oncelog.log.leader_epoch_file import LeaderEpochs
from oncelog.types import TopicPartition


class FirstWatchers:
    """Who waits for the first record of partitions that were never written."""

    def __init__(self, made: Callable[[TopicPartition], LocalPartition | None]) -> None:
        self._made = made
        self._watchers: dict[TopicPartition, dict[Watcher, None]] = {}

    def watch(self, name: TopicPartition, watcher: Watcher) -> None:
        """Tell it when the partition is made, fails to be, or goes away, until `unwatch`."""
        self._watchers.setdefault(name, {})[watcher] = None

    def unwatch(self, name: TopicPartition, watcher: Watcher) -> None:
        """Tell it no more, whether it still waits here or watches the real one."""
        partition = self._made(name)
        if partition is not None:
            partition.unwatch(watcher)
        watchers = self._watchers.get(name, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(name, None)

    def made(self, partition: LocalPartition) -> None:
        """From now on they watch the real one."""
        for watcher in self._watchers.pop(partition.name, ()):
            partition.watch(watcher)

    def gone(self, name: TopicPartition) -> None:
        """It went away with its topic, or could not be made: whoever waits looks again."""
        for watcher in self._watchers.pop(name, ()):
            watcher.partition_changed(None)

    def __len__(self) -> int:
        return len(self._watchers)


@dataclass(frozen=True, slots=True)
class UnwrittenPartition:
    """What readers ask of a partition, answered without one."""

    name: TopicPartition
    rules: Partition
    _topic: Topic
    _settings_of: Callable[[Topic], TopicSettings]
    _first: FirstWatchers

    @property
    def settings(self) -> TopicSettings:
        """Of its topic, put together when somebody asks: who fetches does not."""
        return self._settings_of(self._topic)

    @property
    def is_offline(self) -> bool:
        """It has no disk that could fail."""
        return False

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """None yet."""
        return LeaderEpochs()

    def watch(self, watcher: Watcher) -> None:
        """As a `LocalPartition` does."""
        self._first.watch(self.name, watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """As a `LocalPartition` does."""
        self._first.unwatch(self.name, watcher)
