"""Whether the log was cut below a consumer's position when its leader changed (KIP-320).

A new leader may not have what the former one had handed out (an unclean election, a restored disk). So before the first
fetch from a leader in a newer epoch than the position's own, the leader is asked where that epoch ended with it: a
position behind that end read records that are no longer there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.view import PartitionView
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.positions import Position
from oncelog.client.consumer.reset import reset_timestamp
from oncelog.errors import KafkaError, OffsetOutOfRange, UnsupportedVersion, error_for
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger("oncelog.client")

CONSUMER = -1
FIRST_VERSION_FOR_CONSUMERS = 3


class PositionCheck:
    """Remembers which positions were checked against which leader."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self._cluster, self._config = cluster, config
        self._checked: dict[TopicPartition, tuple[int, int]] = {}  # position's version, leader epoch

    def is_needed(self, topic_partition: TopicPartition, position: Position, leader: PartitionView) -> bool:
        """Whether this leader has to be asked before the next fetch."""
        if position.leader_epoch < 0 or leader.leader_epoch <= position.leader_epoch:
            return False
        return self._checked.get(topic_partition) != (position.version, leader.leader_epoch)

    def keep(self, assigned: Collection[TopicPartition]) -> None:
        """Only these are read now."""
        self._checked = {tp: checked for tp, checked in self._checked.items() if tp in assigned}

    async def check(self, node: Node, positions: Mapping[TopicPartition, Position]) -> None:
        """Asks one leader about these. Raises OffsetOutOfRange where records are gone and nothing says where to go on
        (auto_offset_reset=none), and what the broker says."""
        asked = {tp: (each, each.version, each.offset, self._leader_epoch(tp)) for tp, each in positions.items()}
        try:
            response = await self._cluster.request(
                node, self._request(positions), version_min=FIRST_VERSION_FOR_CONSUMERS
            )
        except UnsupportedVersion:
            self._checked |= {tp: (version, leader_epoch) for tp, (_, version, _, leader_epoch) in asked.items()}
            return
        errors: list[KafkaError] = []
        for topic in response.topics:
            for found in topic.partitions:
                tp = TopicPartition(topic.topic, found.partition)
                if tp not in asked:
                    continue  # nobody asked for it
                position, version, offset, leader_epoch = asked[tp]
                if position.version != version or position.offset != offset:
                    continue  # it went elsewhere meanwhile
                if found.error_code:
                    errors.append(error_for(found.error_code, f"the end of {tp} in leader epoch {leader_epoch}"))
                    continue
                self._checked[tp] = version, leader_epoch
                self._take(tp, position, found)
        if errors:
            self._cluster.refresh_soon({tp.topic for tp in positions})
            raise next((each for each in errors if not each.retriable), errors[0])

    def _leader_epoch(self, topic_partition: TopicPartition) -> int:
        leader = self._cluster.view.leader_of(topic_partition)
        return -1 if leader is None else leader.leader_epoch

    def _request(self, positions: Mapping[TopicPartition, Position]) -> OffsetForLeaderEpochRequest:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for tp, position in positions.items():
            topics.setdefault(tp.topic, []).append(
                OffsetForLeaderPartition(
                    partition=tp.partition,
                    current_leader_epoch=self._leader_epoch(tp),
                    leader_epoch=position.leader_epoch,
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=CONSUMER,
            topics=[OffsetForLeaderTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
        )

    def _take(self, topic_partition: TopicPartition, position: Position, found: EpochEndOffset) -> None:
        offset = position.offset
        assert offset is not None
        is_known = found.leader_epoch >= 0 and found.end_offset >= 0
        if is_known and found.end_offset >= offset:
            return
        reset_to = reset_timestamp(self._cluster, self._config)
        what = f"the log of {topic_partition} was cut below position {offset} (leader epoch {position.leader_epoch})"
        if reset_to is None:
            end = f": it ends at {found.end_offset} now" if is_known else ""
            raise OffsetOutOfRange(f"{what}{end}; seek to go on")
        log.warning("%s", what)
        if is_known:
            position.jump(found.end_offset, topic_id=position.topic_id)
            self._checked.pop(topic_partition, None)
        else:
            position.jump(None, reset_to=reset_to)
