"""DescribeQuorum: the one node that keeps the cluster's metadata is leader and only voter."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.topics import METADATA_TOPIC
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    PartitionData,
    ReplicaState,
    TopicData,
)
from oncelog.wire.messages.describe_quorum import (
    Node as QuorumNode,
)

NODES_SINCE_VERSION = 2


def handle(node: Node, request: Request) -> DescribeQuorumResponse:
    """Partition 0 of the metadata's topic; there is no other."""
    message: DescribeQuorumRequest = request.message
    topics = []
    is_known = False
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            if (topic.topic_name, asked.partition_index) == (METADATA_TOPIC, 0):
                is_known = True
                partitions.append(_metadata_partition(node))
            else:
                partitions.append(
                    PartitionData(
                        partition_index=asked.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                )
        topics.append(TopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = [_node(node)] if is_known and request.api_version >= NODES_SINCE_VERSION else []
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def _metadata_partition(node: Node) -> PartitionData:
    end_offset = node.store.end_offset
    now_ms = node.clock.now_ms()
    voter = ReplicaState(
        replica_id=node.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        leader_id=node.node_id,
        leader_epoch=1,  # nobody else was ever elected
        high_watermark=end_offset,
        current_voters=[voter],
    )


def _node(node: Node) -> QuorumNode:
    host, port = node.advertised_address  # the controller has no listener of its own
    return QuorumNode(node_id=node.node_id, listeners=[Listener(name="CONTROLLER", host=host, port=port)])
