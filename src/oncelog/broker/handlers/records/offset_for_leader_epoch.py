"""OffsetForLeaderEpoch: where a leader epoch ended (KIP-320)."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.partitions.unwritten_partition import UnwrittenPartition
from oncelog.broker.requests.request import Request
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(node: Node, request: Request) -> OffsetForLeaderEpochResponse:
    """One answer per partition."""
    message: OffsetForLeaderEpochRequest = request.message
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_find(node, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _find(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = node.partitions.find(TopicPartition(topic, asked.partition))
    except StorageError:
        partition = None
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    if partition is None:
        answer.error_code = node.partitions.led.why_not(TopicPartition(topic, asked.partition))
        return answer
    refusal = partition.rules.check_leader_epoch(asked.current_leader_epoch)
    if isinstance(refusal, Refuse):
        answer.error_code = refusal.error_code
        return answer
    known = partition.leader_epochs if isinstance(partition, UnwrittenPartition) else partition.log.leader_epochs
    answer.leader_epoch, answer.end_offset = known.end_offset_for(asked.leader_epoch, partition.rules.high_watermark)
    return answer
