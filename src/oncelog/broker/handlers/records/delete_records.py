"""DeleteRecords: move a partition's log start up."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.requests.request import Request
from oncelog.core.leader.delete_records import check_delete_records
from oncelog.core.leader.verdict import Refuse
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(node: Node, request: Request) -> DeleteRecordsResponse:
    """One result per partition; the log start checkpoint is written before the answer."""
    message: DeleteRecordsRequest = request.message
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(node, TopicPartition(topic.name, each.partition_index), each.offset)
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _delete(node: Node, name: TopicPartition, offset: int) -> DeleteRecordsPartitionResult:
    def refused(code: ErrorCode) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=-1, error_code=code)

    try:
        partition = node.partitions.find(name)
        if partition is None:
            return refused(node.partitions.led.why_not(name))
        if partition.is_offline:
            return refused(ErrorCode.KAFKA_STORAGE_ERROR)
        verdict = check_delete_records(
            partition.rules,
            offset,
            is_internal=name.topic in INTERNAL_TOPICS,
            may_delete=partition.settings.is_deleted_by_retention or not partition.settings.is_compacted,
        )
        if isinstance(verdict, Refuse):
            return refused(verdict.error_code)
        if isinstance(partition, LocalPartition):
            node.partitions.log_starts.delete_records(partition, verdict.log_start_offset)
    except StorageError:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=verdict.log_start_offset)
