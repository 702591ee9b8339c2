"""The share coordinators of this node: what is stored of share partitions, by the partitions of `__share_group_state`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.coordinators.coordinator_table import CoordinatorTable
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.decision import Decision
from oncelog.core.metadata.topic_configs import SHARE_STATE_TOPIC
from oncelog.core.share.states import ShareStates
from oncelog.errors import StorageError
from oncelog.host.clock import Clock
from oncelog.wire.log_records.share_state import ShareKey

_log = logging.getLogger("oncelog.share")
PRUNED_RECORDS_MIN = 1_000  # a log shorter than this is read in no time
PRUNED_RECORDS_PER_STATE = 4

StateDecision = Callable[[ShareStates, int], Decision]


class ShareCoordinators(CoordinatorTable[ShareStates]):
    """All share coordinators of this node."""

    def __init__(
        self, partitions: Partitions, topics: Topics, clock: Clock, config: Callable[[], BrokerConfig]
    ) -> None:
        super().__init__(SHARE_STATE_TOPIC, partitions, topics)
        self._clock = clock
        self._config = config

    def _loaded_from(self, partition: LocalPartition, index: int) -> Coordinator[ShareStates]:
        del index
        machine = ShareStates(self._config().share_coordinator_snapshot_update_records_per_snapshot)
        for batch in partition.log.all_batches():
            for stored in () if batch.is_control else batch.records():
                record = machine.record_from_key_value(stored.key, stored.value)
                if record is not None:
                    machine.replay(record)
        return Coordinator(partition, machine, self._clock, to_key_value=machine.record_to_key_value)

    async def store(self, key: ShareKey, decide: StateDecision) -> None:
        """Decide about one share partition, and wait until it is stored. Raises CoordinatorFailed."""
        coordinator = await self.coordinator_of(str(key))
        await coordinator.perform(decide(coordinator.machine, self._clock.now_ms()))

    async def begin(self, keys: Iterable[ShareKey]) -> None:
        """These share partitions have a state from now on. Raises CoordinatorFailed."""
        by_coordinator: dict[Coordinator[ShareStates], list[ShareKey]] = {}
        for key in keys:
            by_coordinator.setdefault(await self.coordinator_of(str(key)), []).append(key)
        for coordinator, some in by_coordinator.items():
            await coordinator.perform(coordinator.machine.initialize(some, self._clock.now_ms()))

    async def forget(self, is_gone: Callable[[ShareKey], bool]) -> None:
        """The states of these share partitions are needed no more; one whose log is offline stays until a restart.

        All are given up in one step: a group of that name that begins meanwhile stores its states before it is known itself.
        """
        given_up = []
        for coordinator in list(self.loaded()):
            keys = [key for key in coordinator.machine.by_key if is_gone(key)]
            if keys:
                given_up.append(coordinator.perform(coordinator.machine.delete(keys)))
        for each in given_up:
            with contextlib.suppress(CoordinatorFailed):
                await each

    async def prune(self) -> None:
        """Where much of a log is history, say everything again and give up what stands before it."""
        for coordinator in list(self.loaded()):
            partition, count = coordinator.partition, len(coordinator.machine)
            length = partition.log_end_offset - partition.rules.log_start_offset
            if partition.is_offline or length <= max(PRUNED_RECORDS_MIN, PRUNED_RECORDS_PER_STATE * count):
                continue
            start_offset = partition.log_end_offset
            with contextlib.suppress(CoordinatorFailed):  # it is offline and has said why
                # In one step, before anything else is appended; the last one committed says that all are.
                done = [coordinator.perform(each) for each in coordinator.machine.snapshots(self._clock.now_ms())]
                for each in done:
                    await each
                await coordinator.committed()
                self._give_up(partition, start_offset)

    def _give_up(self, partition: LocalPartition, start_offset: int) -> None:
        try:
            self._partitions.log_starts.delete_records(partition, start_offset)
        except StorageError as error:
            _log.error("%s keeps what is needed no more: %s", partition.name, error)
