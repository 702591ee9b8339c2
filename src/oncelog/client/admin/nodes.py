"""Brokers' disks, the metadata quorum, leaders, and which resources have configs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.configs import ConfigResource
from oncelog.client.admin.session import AdminSession
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionDataRequest, TopicDataRequest
from oncelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from oncelog.wire.messages.list_config_resources import ListConfigResourcesRequest

METADATA_TOPIC = "__cluster_metadata"
_KINDS = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
ELECTION_TYPES = {"preferred": 0, "unclean": 1}


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A broker's data directory: sizes in bytes, -1 where the broker does not tell."""

    node_id: int
    path: str
    total_bytes: int
    usable_bytes: int
    partition_sizes: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class QuorumVoter:
    """A controller that keeps the cluster's metadata."""

    node_id: int
    log_end_offset: int
    last_caught_up_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """Who keeps the cluster's metadata."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumVoter, ...]
    observers: tuple[QuorumVoter, ...]


class AdminNodes(AdminSession):
    """What an admin can ask of nodes."""

    async def describe_log_dirs(self) -> list[LogDirectory]:
        """Every broker's data directories, and how much each partition keeps there."""
        found = []
        for node, response in await self._ask_every_node(
            "describe log directories", lambda: DescribeLogDirsRequest(topics=None)
        ):
            for each in response.results:
                if each.error_code:
                    what = each.log_dir or "describe log directories"
                    raise self._refusal(DescribeLogDirsRequest, each.error_code, what)
                sizes = {
                    TopicPartition(topic.name, part.partition_index): part.partition_size
                    for topic in each.topics
                    for part in topic.partitions
                }
                found.append(LogDirectory(node.node_id, each.log_dir, each.total_bytes, each.usable_bytes, sizes))
        return found

    async def describe_metadata_quorum(self) -> QuorumDescription:
        """Leader and voters of the metadata."""
        asked = TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[PartitionDataRequest(partition_index=0)])
        response = await self._ask_any(
            "describe the metadata quorum", DescribeQuorumRequest(topics=[asked]), is_question=True
        )
        part = response.topics[0].partitions[0]
        if part.error_code:
            raise self._refusal(DescribeQuorumRequest, part.error_code, "describe the metadata quorum")

        def voters(states: Iterable[Any]) -> tuple[QuorumVoter, ...]:
            return tuple(QuorumVoter(s.replica_id, s.log_end_offset, s.last_caught_up_timestamp) for s in states)

        return QuorumDescription(
            part.leader_id,
            part.leader_epoch,
            part.high_watermark,
            voters(part.current_voters),
            voters(part.observers),
        )

    async def list_config_resources(self, kinds: Iterable[str] = ()) -> list[ConfigResource]:
        """What has configs of its own (default: all kinds): "topic", "broker", "broker-logger", "client-metrics", "group"."""
        message = ListConfigResourcesRequest(
            resource_types=[
                _KINDS[arguments.one_of("a kind", kind, _KINDS)] for kind in arguments.texts("kinds", kinds)
            ]
        )
        response = await self._ask_any("list config resources", message, version_min=1, is_question=True)
        found = [
            ConfigResource(_KIND_NAMES[each.resource_type], each.resource_name) for each in response.config_resources
        ]
        return sorted(found)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: str = "preferred"
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders ("preferred" or "unclean"; default: of all partitions that need it); how each went."""
        arguments.one_of("election_type", election_type, ELECTION_TYPES)
        topics: dict[str, list[int]] = {}
        for partition in () if partitions is None else arguments.topic_partitions("partitions", partitions):
            topics.setdefault(partition.topic, []).append(partition.partition)
        message = ElectLeadersRequest(
            election_type=ELECTION_TYPES[election_type],
            topic_partitions=None
            if partitions is None
            else [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()],
            timeout_ms=self._config.request_timeout_ms,
        )

        def check(response: Any) -> None:
            self._raise_top_level(ElectLeadersRequest, response, "elect leaders")

        response = await self._ask_controller("elect leaders", message, check)
        return {
            TopicPartition(topic.topic, part.partition_id): ErrorCode(part.error_code)
            for topic in response.replica_election_results
            for part in topic.partition_result
        }
