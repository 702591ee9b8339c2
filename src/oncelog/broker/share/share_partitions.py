"""The share partitions that are open on this node, and the sessions of who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.partitions.unwritten_partition import UnwrittenPartition
from oncelog.broker.share.group_changes import GroupChanges
from oncelog.broker.share.share_coordinators import ShareCoordinators
from oncelog.broker.share.share_partition import SharePartition
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.offset_reset import first_time_ms
from oncelog.core.share.runs import RecordState
from oncelog.core.share.sessions import MemberKey, RefusedSession, ShareSession, ShareSessions
from oncelog.core.share.settings import EARLIEST, ShareConfig, ShareSettings
from oncelog.core.share.states import ShareState, ShareStates
from oncelog.core.share.window import StateBatch, Window
from oncelog.errors import DamagedLog, ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.types import TopicPartition
from oncelog.wire.log_records.share_state import UNINITIALIZED, ShareKey

_KEYS = tuple(ShareConfig.__dataclass_fields__)


class SharePartitions:
    """All share partitions of this node."""

    def __init__(
        self,
        coordinators: ShareCoordinators,
        metadata: ClusterMetadata,
        partitions: Partitions,
        clock: Clock,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.coordinators = coordinators
        self.sessions = ShareSessions(
            lambda: config().group_share_max_share_sessions, lambda: config().oncelog_max_fetch_session_partitions
        )
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._config = config
        self.changes = GroupChanges()
        self._open: dict[str, dict[ShareKey, SharePartition]] = {}  # by group
        self.is_closing = False

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    @property
    def in_flight_count(self) -> int:
        """Records that somebody has, or had and gave back."""
        return sum(share.in_flight_count for shares in self._open.values() for share in shares.values())

    def settings(self, group_id: str) -> ShareSettings:
        """What holds for a group now."""
        config = self._config()
        broker = ShareConfig(**{name: getattr(config, name) for name in _KEYS})
        return broker.settings(self._metadata.group_configs.get(group_id, {}))

    # -- opening ---------------------------------------------------------------------------------------------------

    def opened(self, key: ShareKey) -> SharePartition | None:
        """The share partition if it is open."""
        return self._open.get(key.group_id, {}).get(key)

    async def open(self, key: ShareKey) -> SharePartition:
        """The share partition, with its state read, and with a start that is stored. Raises CoordinatorFailed."""
        coordinator = await self.coordinators.coordinator_of(str(key))
        share = self.opened(key)
        if share is None and (time_ms := self._time_to_begin_at(key, coordinator)) is not None:
            await self._mend(key, time_ms)
            coordinator = await self.coordinators.coordinator_of(str(key))
            share = self.opened(key)
        if share is None:
            share = self._begun(key, coordinator)
            self._open.setdefault(key.group_id, {})[key] = share
        if coordinator.partition.rules.high_watermark < share.first_end_offset:
            await coordinator.committed()
        return share

    def _time_to_begin_at(self, key: ShareKey, coordinator: Coordinator[ShareStates]) -> int | None:
        """Of a group that nobody has read for, and that begins by time."""
        state = coordinator.machine.by_key.get(key)
        if state is None or state.start_offset != UNINITIALIZED:
            return None
        return first_time_ms(self.settings(key.group_id).offset_reset, self._clock.now_ms())

    async def _mend(self, key: ShareKey, time_ms: int) -> None:
        """Before that time is looked up: large segments whose indexes lie are read beside the loop. What cannot be read is told
        by the lookup."""
        with suppress(StorageError):
            partition = self._partition_of(key)
            if isinstance(partition, LocalPartition):
                await self._partitions.index_mending.mend(partition, time_ms)

    def _begun(self, key: ShareKey, coordinator: Coordinator[ShareStates]) -> SharePartition:
        machine = coordinator.machine
        state = machine.by_key.get(key)
        if state is None:  # nobody of the group has subscribed
            raise CoordinatorFailed(ErrorCode.UNKNOWN_SERVER_ERROR)
        if state.start_offset == UNINITIALIZED:
            start_offset = self._first_offset(key)
            coordinator.perform(machine.begin_at(key, start_offset, self._clock.now_ms()))
            state = machine.by_key[key]
        return SharePartition(
            key,
            coordinator,
            _window_of(state),
            lambda: self.settings(key.group_id),
            lambda: self._partition_of(key),
            self._clock,
            self._partitions.index_mending,
        )

    def _partition_of(self, key: ShareKey) -> LocalPartition | UnwrittenPartition | None:
        """The partition that is shared. Raises StorageError."""
        topic = self._metadata.topics_by_id.get(key.topic_id)
        return None if topic is None else self._partitions.find(TopicPartition(topic.name, key.partition))

    def _first_offset(self, key: ShareKey) -> int:
        """Where a group begins that nobody has read for. Raises CoordinatorFailed."""
        try:
            partition = self._partition_of(key)
            if partition is None:
                raise CoordinatorFailed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            reset = self.settings(key.group_id).offset_reset
            if reset == EARLIEST:
                return partition.rules.log_start_offset
            time_ms = first_time_ms(reset, self._clock.now_ms())
            if time_ms is not None and isinstance(partition, LocalPartition):
                found = partition.log.offset_for_timestamp(time_ms)
                if found is not None and found.offset < partition.rules.high_watermark:
                    return max(found.offset, partition.rules.log_start_offset)
        except (StorageError, DamagedLog) as error:
            raise CoordinatorFailed(ErrorCode.KAFKA_STORAGE_ERROR) from error
        return partition.rules.high_watermark

    # -- ending ----------------------------------------------------------------------------------------------------

    def release(self, session: ShareSession) -> None:
        """The session is over: others get what its member has."""
        for share in tuple(self._open.get(session.key.group_id, {}).values()):
            share.release(session.key.member_id)

    @contextmanager
    def ending(self, key: MemberKey) -> Iterator[ShareSession | RefusedSession]:
        """The member's session, which is over with this, however it is left: others get then what the member still has."""
        session = self.sessions.close(key)
        try:
            yield session
        finally:
            if isinstance(session, ShareSession):
                self.release(session)

    def connection_lost(self, connection_id: int) -> None:
        """Sessions end with their connection."""
        for session in self.sessions.connection_lost(connection_id):
            self.release(session)

    async def topic_deleted(self, topic: Topic) -> None:
        """What is stored of a deleted topic's records goes with it."""
        self._close(key for shares in self._open.values() for key in shares if key.topic_id == topic.topic_id)
        await self.coordinators.forget(lambda key: key.topic_id == topic.topic_id)

    async def group_deleted(self, group_id: str) -> None:
        """What is stored of a deleted group's records goes with it."""
        self._close(self._open.get(group_id, ()))
        await self.coordinators.forget(lambda key: key.group_id == group_id)

    async def forget_orphans(self, has_begun: Callable[[ShareKey], bool]) -> None:
        """States that no group knows of, or of topics that are gone: a crash, or a stop, came between two steps."""
        topics = self._metadata.topics_by_id
        await self.coordinators.forget(lambda key: key.topic_id not in topics or not has_begun(key))

    async def move(self, starts: Mapping[ShareKey, int]) -> None:
        """An operator wants the group to go on from there. Raises CoordinatorFailed."""
        await self.coordinators.begin_at(starts, lambda key: self._close([key]))

    async def forget(self, keys: AbstractSet[ShareKey]) -> None:
        """Their group knows nothing of these share partitions any more."""
        if keys:
            self._close(keys)
            await self.coordinators.forget(keys.__contains__)

    def _close(self, keys: Iterable[ShareKey]) -> None:
        for key in tuple(keys):
            shares = self._open.get(key.group_id, {})
            share = shares.pop(key, None)
            if share is not None:
                share.close()
            if not shares:
                self._open.pop(key.group_id, None)

    def close(self) -> None:
        """The broker stops: nobody waits for records any more, or gets one; what became of those before is still taken."""
        self.is_closing = True
        for shares in self._open.values():
            for share in shares.values():
                share.wake()

    def end(self) -> None:
        """Nothing happens any more."""
        self.is_closing = True
        self._close(key for shares in self._open.values() for key in shares)


def _window_of(state: ShareState) -> Window:
    return Window(
        state.start_offset,
        [
            StateBatch(each.first_offset, each.last_offset, RecordState(each.state), each.delivery_count)
            for each in state.batches()
        ],
    )
