"""DescribeProducers: every producer a partition remembers, with its open transaction (KIP-664)."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(node: Node, request: Request) -> DescribeProducersResponse:
    """One answer per partition."""
    message: DescribeProducersRequest = request.message
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(node, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _describe(node: Node, topic: str, index: int) -> PartitionResponse:
    def refused(code: ErrorCode) -> PartitionResponse:
        return PartitionResponse(partition_index=index, error_code=code)

    if topic_name_fault(topic):
        return refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        partition = node.partitions.find(TopicPartition(topic, index))
    except StorageError:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    if partition is None:
        return refused(node.partitions.led.why_not(TopicPartition(topic, index)))
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_start_offset,
            )
            for each in partition.rules.describe_producers()
        ],
    )
