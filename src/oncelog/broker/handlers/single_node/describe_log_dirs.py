"""DescribeLogDirs: how much each partition keeps on disk."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(node: Node, request: Request) -> DescribeLogDirsResponse:
    """The one data directory, with those of its partitions that are asked for, or all."""
    message: DescribeLogDirsRequest = request.message
    wanted = None if message.topics is None else {topic.topic: set(topic.partitions) for topic in message.topics}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name in (name for topic in node.metadata.topics.values() for name in topic.partitions()):
        if wanted is not None and name.partition not in wanted.get(name.topic, ()):
            continue
        if node.partitions.led.topic_of(name) is None:  # another process has it
            continue
        partition = node.partitions.existing(name)
        size_bytes = partition.log.size_bytes if partition is not None else 0
        shown = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
        shown.partitions.append(DescribeLogDirsPartition(partition_index=name.partition, partition_size=size_bytes))
    total_bytes, usable_bytes = node.disk_space(node.data_directory)
    result = DescribeLogDirsResult(
        log_dir=node.data_directory,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])
