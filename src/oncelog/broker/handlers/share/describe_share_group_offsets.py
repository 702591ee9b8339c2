"""DescribeShareGroupOffsets: where share groups stand, as it is stored (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.core.share.states import ShareState
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.log_records.share_state import UNINITIALIZED, ShareKey
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from oncelog.wire.schema import ZERO_UUID

UNKNOWN = -1  # a start offset or a lag


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DescribeShareGroupOffsetsResponse]:
    """One result per group."""
    return _handle(node, request.message)


async def _handle(node: Node, message: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    is_served = level_of(node.metadata.features, SHARE_VERSION) >= 1
    groups = []
    for asked in message.groups:
        described = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        if is_served:
            try:
                described.topics = await _topics(node, asked)
            except CoordinatorFailed as failed:
                described.error_code = failed.error_code
        else:
            described.error_code = ErrorCode.UNSUPPORTED_VERSION
        groups.append(described)
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _topics(
    node: Node, asked: DescribeShareGroupOffsetsRequestGroup
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    group = (await node.groups.coordinator_of(asked.group_id)).machine.share_groups.by_id.get(asked.group_id)
    by_id = node.metadata.topics_by_id
    wanted: Iterable[tuple[str, bytes, list[int]]]
    if asked.topics is not None:
        known = node.metadata.topics
        wanted = [
            (
                each.topic_name,
                known[each.topic_name].topic_id if each.topic_name in known else ZERO_UUID,
                each.partitions,
            )
            for each in asked.topics
        ]
    else:
        begun = group.begun if group is not None else {}
        wanted = [(by_id[each].name, each, sorted(found)) for each, found in begun.items() if each in by_id]
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=topic_id,
            partitions=[
                await _partition(node, name, ShareKey(asked.group_id, topic_id, index))
                for index in dict.fromkeys(indexes)
            ],
        )
        for name, topic_id, indexes in wanted
    ]


async def _partition(node: Node, topic: str, key: ShareKey) -> DescribeShareGroupOffsetsResponsePartition:
    described = DescribeShareGroupOffsetsResponsePartition(partition_index=key.partition, start_offset=UNKNOWN)
    if key.topic_id == ZERO_UUID:
        return described
    coordinator = await node.share_partitions.coordinators.coordinator_of(str(key))
    state = coordinator.machine.by_key.get(key)
    if state is not None:
        described.start_offset, described.leader_epoch = state.start_offset, state.leader_epoch
        described.lag = _lag(node, TopicPartition(topic, key.partition), state)
    await coordinator.committed()
    return described


def _lag(node: Node, name: TopicPartition, state: ShareState) -> int:
    """Records from the start offset on that nobody is done with."""
    if state.start_offset == UNINITIALIZED:
        return UNKNOWN
    try:
        partition = node.partitions.find(name)
    except StorageError:
        return UNKNOWN
    if partition is None:
        return UNKNOWN
    return partition.rules.high_watermark - state.start_offset - state.complete_count
