"""Metadata: the brokers, their topics, and the automatic creation of topics that are asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.wire.schema import ZERO_UUID

_log = logging.getLogger("oncelog.metadata")

# All operations that Kafka grants on a topic or cluster where no authorizer is configured (bits of AclOperation).
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
NO_OPERATIONS = -(1 << 31)
TOPIC_IDS_SINCE_VERSION = 12  # v10 and v11 have the field, but it never worked (KAFKA-14324)


def handle(node: Node, request: Request) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Describe the topics asked for, or all; create missing ones where that is allowed."""
    message: MetadataRequest = request.message
    asks_for_all = message.topics is None or (request.api_version == 0 and not message.topics)
    if asks_for_all:
        return _response(node, request, [_described(node, topic, message) for topic in node.metadata.topics.values()])
    assert message.topics is not None
    if request.api_version < TOPIC_IDS_SINCE_VERSION and any(
        asked.topic_id != ZERO_UUID or asked.name is None for asked in message.topics
    ):
        return _no_topic_ids(message.topics)
    wanted = {(asked.name, asked.topic_id): asked for asked in message.topics}  # one answer for a topic asked twice
    missing = [name for name, _ in wanted if name and name not in node.metadata.topics and not topic_name_fault(name)]
    may_create = node.config.auto_create_topics_enable and message.allow_auto_topic_creation
    if missing and may_create:
        return _created(node, request, list(wanted.values()), missing)
    return _response(node, request, [_answer(node, asked, request) for asked in wanted.values()])


def _no_topic_ids(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    refused = [
        MetadataResponseTopic(name=asked.name or "", topic_id=asked.topic_id, error_code=ErrorCode.INVALID_REQUEST)
        for asked in topics
    ]
    return MetadataResponse(topics=refused)


async def _created(
    node: Node, request: Request, wanted: list[MetadataRequestTopic], missing: list[str]
) -> MetadataResponse:
    for name in missing:
        try:
            await node.topics.create_automatically(name)
        except StorageError as error:
            _log.error("topic %s could not be created: %s", name, error)
    return _response(node, request, [_answer(node, asked, request) for asked in wanted])


def _answer(node: Node, asked: MetadataRequestTopic, request: Request) -> MetadataResponseTopic:
    message: MetadataRequest = request.message
    topic = node.metadata.topic(asked.name, asked.topic_id)
    if topic is not None:
        return _described(node, topic, message)
    if asked.name is None:
        return MetadataResponseTopic(name=None, topic_id=asked.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    fault = topic_name_fault(asked.name)
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if fault else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(name=asked.name, error_code=code, is_internal=asked.name in INTERNAL_TOPICS)


def _described(node: Node, topic: Topic, message: MetadataRequest) -> MetadataResponseTopic:
    asks_operations = message.include_topic_authorized_operations
    if node.authorization is None:  # else the answer is completed for who asked
        kept = node.described_topics.of(topic, asks_operations, _topic)
        if kept is not None:
            return cast("MetadataResponseTopic", kept)
    return _topic(topic, asks_operations, node.leadership, node.is_offline)


def _topic(
    topic: Topic, asks_operations: bool, leadership: Leadership, is_offline: Callable[[TopicPartition], bool]
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=(leader_id := leadership.leader_of(topic, index)),
                leader_epoch=0,
                replica_nodes=[leader_id],
                isr_nodes=[leader_id],
                offline_replicas=[leader_id] if is_offline(TopicPartition(topic.name, index)) else [],
            )
            for index in range(topic.partition_count)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS if asks_operations else NO_OPERATIONS,
    )


def _response(node: Node, request: Request, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    told = node.addresses_told(request).items()
    asks_operations = request.message.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node_id, host=host, port=port) for node_id, (host, port) in told],
        cluster_id=node.cluster_id,
        controller_id=node.leadership.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asks_operations else NO_OPERATIONS,
    )
