"""Kafka Streams applications for tests: topologies, and members that do as they are told."""

from __future__ import annotations

from typing import Any

from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.streams.heartbeat import StreamsHeartbeatResult
from oncelog.wire.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from oncelog.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.core.groups.performed_groups import GroupShell

AT_ONCE = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_streams_initial_rebalance_delay_ms=0,
    group_streams_assignment_interval_ms=0,
)


def word_count(topology_epoch: int = 0) -> Topology:
    """Words are grouped behind a repartition topic, and counted in a store."""
    return Topology(
        topology_epoch=topology_epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["words"], repartition_sink_topics=["by-word"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="by-word")],
                state_changelog_topics=[TopicInfo(name="counts")],
            ),
        ],
    )


def stateful() -> Topology:
    """One subtopology that keeps a store of what it reads."""
    reads = Subtopology(subtopology_id="0", source_topics=["words"], state_changelog_topics=[TopicInfo(name="counts")])
    return Topology(subtopologies=[reads])


def joined(first: str, second: str) -> Topology:
    """Two topics that are joined."""
    both = CopartitionGroup(source_topics=[0, 1])
    return Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=[first, second], copartition_groups=[both])]
    )


def ids(tasks: dict[str, set[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def held(found: list[TaskIds] | None) -> list[str]:
    """Tasks by name, "0_1": partition 1 of subtopology 0."""
    return [f"{each.subtopology_id}_{index}" for each in found or [] for index in each.partitions]


class StreamsShell(GroupShell):
    """Asks a coordinator; internal topics that it wants are made at once, as the broker does."""

    def __init__(self, config: GroupConfig = AT_ONCE, *, words: int = 2, makes_topics: bool = True) -> None:
        super().__init__(config)
        self.makes_topics = makes_topics
        if words:
            self.create_topic("words", words)

    def ask(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        decision = self.coordinator.streams_group_heartbeat(
            request, client_id="app", client_host="/h", now_ms=self.now_ms
        )
        result: StreamsHeartbeatResult = self.perform(decision)
        for each in result.missing_topics if self.makes_topics else ():
            self.create_topic(each.name, each.partition_count)
        return result.response

    def streams_beat(self, member_id: str, member_epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """One heartbeat; a join brings what it must."""
        if member_epoch == 0:
            none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            first = {"rebalance_timeout_ms": 10_000, "topology": word_count(), "process_id": member_id}
            fields = none | first | fields
        fields = {"group_id": "g"} | fields
        return self.ask(StreamsGroupHeartbeatRequest(member_id=member_id, member_epoch=member_epoch, **fields))

    def described(self, group_id: str = "g") -> DescribedGroup:
        request = StreamsGroupDescribeRequest(group_ids=[group_id])
        described: DescribedGroup = self.coordinator.streams_group_describe(request).reply.groups[0]
        return described

    def join_ready(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Joins, and beats again where the topics had to be made first."""
        response = self.streams_beat(member_id, 0, **fields)
        return self.streams_beat(member_id, response.member_epoch) if response.status else response
