"""DescribeTopicPartitions: topics page by page (KIP-966)."""

from __future__ import annotations

from oncelog.broker.handlers.metadata.metadata import TOPIC_OPERATIONS
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(node: Node, request: Request) -> DescribeTopicPartitionsResponse:
    """The topics in order of their names, from the cursor on, at most `response_partition_limit` partitions."""
    message: DescribeTopicPartitionsRequest = request.message
    names = sorted({topic.name for topic in message.topics} or set(node.metadata.topics))
    first_topic, first_index = "", 0
    if message.cursor is not None:
        first_topic, first_index = message.cursor.topic_name, message.cursor.partition_index
    limit = max(min(message.response_partition_limit, node.config.max_request_partition_size_limit), 1)
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in names:
        if name < first_topic:
            continue
        begin = first_index if name == first_topic else 0
        if limit <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=begin)
            break
        topic = node.metadata.topics.get(name)
        if topic is None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_fault(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    name=name, error_code=code, topic_authorized_operations=TOPIC_OPERATIONS
                )
            )
            continue
        end = min(topic.partition_count, begin + limit)
        limit -= max(end - begin, 0)
        response.topics.append(_described(node, topic, range(begin, end)))
        if end < topic.partition_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _described(node: Node, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=(leader_id := node.leadership.leader_of(topic, index)),
                leader_epoch=0,
                replica_nodes=[leader_id],
                isr_nodes=[leader_id],
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[leader_id] if node.is_offline(TopicPartition(topic.name, index)) else [],
            )
            for index in indexes
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
