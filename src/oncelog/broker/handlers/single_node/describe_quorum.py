"""DescribeQuorum: the one node that keeps the cluster's metadata is leader and only voter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.topics import METADATA_TOPIC
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

NODES_SINCE_VERSION = 2


def handle(broker: Broker, request: Request) -> DescribeQuorumResponse:
    """Partition 0 of the metadata's topic; there is no other."""
    message: DescribeQuorumRequest = request.message
    topics = []
    is_known = False
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            if (topic.topic_name, asked.partition_index) == (METADATA_TOPIC, 0):
                is_known = True
                partitions.append(_metadata_partition(broker))
            else:
                partitions.append(
                    PartitionData(
                        partition_index=asked.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                )
        topics.append(TopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = [_node(broker)] if is_known and request.api_version >= NODES_SINCE_VERSION else []
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def _metadata_partition(broker: Broker) -> PartitionData:
    end_offset = broker.store.end_offset
    now_ms = broker.host.clock.now_ms()
    voter = ReplicaState(
        replica_id=broker.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        leader_id=broker.node_id,
        leader_epoch=1,  # nobody else was ever elected
        high_watermark=end_offset,
        current_voters=[voter],
    )


def _node(broker: Broker) -> Node:
    host, port = broker.advertised_address  # the controller has no listener of its own
    return Node(node_id=broker.node_id, listeners=[Listener(name="CONTROLLER", host=host, port=port)])
