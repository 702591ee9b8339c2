"""AlterReplicaLogDirs: there is one data directory, so a replica can only be asked to stay in it."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(node: Node, request: Request) -> AlterReplicaLogDirsResponse:
    """One result per partition; another directory is one that is not there."""
    message: AlterReplicaLogDirsRequest = request.message
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[]))
            for index in topic.partitions:
                code = _outcome(node, directory.path, TopicPartition(topic.name, index))
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _outcome(node: Node, path: str, name: TopicPartition) -> ErrorCode:
    if path.rstrip("/") != node.data_directory.rstrip("/"):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if node.metadata.topic_of(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.KAFKA_STORAGE_ERROR if node.partitions.is_offline(name) else ErrorCode.NONE
