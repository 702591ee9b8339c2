"""Share groups on this node: their parts are made, and imported, with the first one. Many a broker has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.topic_configs import SHARE_STATE_TOPIC
from oncelog.host.clock import Clock

if TYPE_CHECKING:
    from oncelog.broker.share.share_partitions import SharePartitions
    from oncelog.wire.log_records.share_state import ShareKey


class ShareGroups:
    """What a broker does with share groups, whether there are any or not."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        partitions: Partitions,
        topics: Topics,
        clock: Clock,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._topics = topics
        self._clock = clock
        self._config = config
        self._made: SharePartitions | None = None
        self._is_closing = False

    @property
    def share_partitions(self) -> SharePartitions:
        """The parts, made now if nobody has needed them before."""
        if self._made is None:
            from oncelog.broker.share.share_coordinators import ShareCoordinators
            from oncelog.broker.share.share_partitions import SharePartitions

            coordinators = ShareCoordinators(self._partitions, self._topics, self._clock, self._config)
            self._made = SharePartitions(coordinators, self._metadata, self._partitions, self._clock, self._config)
            self._made.is_closing = self._is_closing
        return self._made

    def load_all(self) -> None:
        """Load the states of share partitions, where somebody has ever stored any."""
        if SHARE_STATE_TOPIC in self._metadata.topics:
            self.share_partitions.coordinators.load_all()

    # -- figures ---------------------------------------------------------------------------------------------------

    @property
    def session_count(self) -> int:
        """Sessions of who reads."""
        return 0 if self._made is None else len(self._made.sessions)

    @property
    def partition_count(self) -> int:
        """Share partitions in use."""
        return 0 if self._made is None else len(self._made)

    @property
    def in_flight_count(self) -> int:
        """Records that somebody has, or had and gave back."""
        return 0 if self._made is None else self._made.in_flight_count

    # -- ending ----------------------------------------------------------------------------------------------------

    def connection_lost(self, connection_id: int) -> None:
        """Sessions end with their connection."""
        if self._made is not None:
            self._made.connection_lost(connection_id)

    async def topic_deleted(self, topic: Topic) -> None:
        """What is stored of a deleted topic's records goes with it."""
        if self._made is not None:
            await self._made.topic_deleted(topic)

    async def group_deleted(self, group_id: str) -> None:
        """What is stored of a deleted group's records goes with it."""
        if self._made is not None:
            await self._made.group_deleted(group_id)

    async def forget_orphans(self, has_begun: Callable[[ShareKey], bool]) -> None:
        """States that no group knows of, or of topics that are gone: a crash, or a stop, came between two steps."""
        if self._made is not None:
            await self._made.forget_orphans(has_begun)

    async def prune(self) -> None:
        """Give up what of the coordinators' logs is history."""
        if self._made is not None:
            await self._made.coordinators.prune()

    def close(self) -> None:
        """The broker stops: nobody waits for records any more, or gets one; what became of those before is still taken."""
        self._is_closing = True
        if self._made is not None:
            self._made.close()

    def end(self) -> None:
        """Nothing happens any more."""
        self._is_closing = True
        if self._made is not None:
            self._made.end()
