"""The share coordinators of this node: what is stored of share partitions, by the partitions of `__share_group_state`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.coordinators.coordinator_table import CoordinatorTable
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.metadata.topic_configs import SHARE_STATE_TOPIC
from oncelog.core.share.states import ShareStates
from oncelog.errors import StorageError
from oncelog.host.clock import Clock
from oncelog.wire.log_records.share_state import ShareKey

_log = logging.getLogger("oncelog.share")
PRUNED_RECORDS_MIN = 1_000  # a log shorter than this is read in no time
PRUNED_RECORDS_PER_STATE = 4


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

    async def begin(self, keys: Iterable[ShareKey]) -> None:
        """These share partitions have a state from now on. Raises CoordinatorFailed."""
        now_ms = self._clock.now_ms()
        found = await self._by_coordinator(keys)
        await _stored([each.perform(each.machine.initialize(some, now_ms)) for each, some in found.items()])

    async def begin_at(self, starts: Mapping[ShareKey, int], moved: Callable[[ShareKey], None]) -> None:
        """These share partitions go on from there; `moved` is called of each in the same step. Raises CoordinatorFailed."""
        now_ms = self._clock.now_ms()
        stored = []
        for coordinator, some in (await self._by_coordinator(starts)).items():
            for key in some:
                moved(key)
                stored.append(coordinator.perform(coordinator.machine.begin_at(key, starts[key], now_ms)))
        await _stored(stored)

    async def _by_coordinator(self, keys: Iterable[ShareKey]) -> dict[Coordinator[ShareStates], list[ShareKey]]:
        found: dict[Coordinator[ShareStates], list[ShareKey]] = {}
        for key in keys:
            found.setdefault(await self.coordinator_of(str(key)), []).append(key)
        return found

    async def forget(self, is_gone: Callable[[ShareKey], bool]) -> None:
        """The states of these share partitions are needed no more; one whose log is offline stays until a restart.

        All are given up in one step, however long that takes to be stored.
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


async def _stored(performed: Iterable[Awaitable[object]]) -> None:
    """All of it. Raises CoordinatorFailed."""
    for each in performed:
        await each
