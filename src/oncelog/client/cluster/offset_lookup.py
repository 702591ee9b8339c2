"""ListOffsets over a whole cluster: the offset of a time, or the first and last, per partition, retried per partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.each_leader import LOOKS, Unreadable, ask_leaders
from oncelog.errors import KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST: int = -1
EARLIEST: int = -2
LARGEST_TIMESTAMP: int = -3


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """What a lookup found: offset -1 where no record is that late. `leader_epoch` -1 where unknown. `topic_id`: of the topic that
    the client knew under the name when it asked."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1
    topic_id: bytes | None = field(default=None, compare=False, repr=False)


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    is_read_committed: bool,
    timeout_ms: int | None = None,
    unreadable: Unreadable | None = None,
    looks: int = LOOKS,
) -> dict[TopicPartition, FoundOffset]:
    """The offsets of these timestamps (or LATEST, EARLIEST ...). Latest under read_committed is the LSO."""
    cluster.topics.track({tp.topic for tp in wanted})

    async def ask(
        node: Node, partitions: list[TopicPartition]
    ) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
        return await _ask(cluster, node, {tp: wanted[tp] for tp in partitions}, is_read_committed)

    return await ask_leaders(
        cluster, "look up offsets", wanted, ask, timeout_ms=timeout_ms, unreadable=unreadable, looks=looks
    )


async def _ask(
    cluster: Cluster, node: Node, wanted: Mapping[TopicPartition, int], is_read_committed: bool
) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    message = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if is_read_committed else 0,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=cluster.config.request_timeout_ms,
    )
    version_min = 7 if LARGEST_TIMESTAMP in wanted.values() else 2
    topic_ids = cluster.view.topic_ids(topics) or {}
    response = await cluster.request(node, message, version_min=version_min)
    found: dict[TopicPartition, FoundOffset] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            topic_partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                errors[topic_partition] = cluster.refusal(each.error_code, f"offsets of {topic_partition}", topic.name)
            else:
                topic_id = topic_ids.get(topic.name)
                found[topic_partition] = FoundOffset(each.offset, each.timestamp, each.leader_epoch, topic_id)
    return found, errors
