"""FindCoordinator: who leads the partition that keeps a name; the first question creates the coordinators' topic."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode, StorageError
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.wire.uuids import uuid_from

BATCHED_SINCE_VERSION = 4
SHARES_SINCE_VERSION = 6
_SHARE = 2
_TOPICS = {0: CONSUMER_OFFSETS_TOPIC, 1: TRANSACTION_STATE_TOPIC, _SHARE: SHARE_STATE_TOPIC}


def handle(node: Node, request: Request) -> Coroutine[Any, Any, FindCoordinatorResponse]:
    """Key type 0 is a group, 1 a transactional id, 2 a share partition (`group:topic id:partition`, from version 6)."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> FindCoordinatorResponse:
    message: FindCoordinatorRequest = request.message
    code = ErrorCode.NONE
    topic_name = _TOPICS.get(message.key_type)
    if topic_name is None or (message.key_type == _SHARE and request.api_version < SHARES_SINCE_VERSION):
        code = ErrorCode.INVALID_REQUEST
    else:
        try:
            await node.topics.internal(topic_name)
        except StorageError:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    keys = message.coordinator_keys if request.api_version >= BATCHED_SINCE_VERSION else [message.key]
    found = [
        _found(node, request, key, topic_name if code is ErrorCode.NONE else None, code)
        if message.key_type != _SHARE or _is_share_key(key)
        else Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST)
        for key in keys
    ]
    if request.api_version >= BATCHED_SINCE_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=code,
        error_message=None if code is ErrorCode.NONE else code.name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _found(node: Node, request: Request, key: str, topic_name: str | None, code: ErrorCode) -> Coordinator:
    topic = node.metadata.topics.get(topic_name) if topic_name is not None else None
    if topic is None:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
    node_id = node.leadership.leader_of(topic, coordinator_partition(key, topic.partition_count))
    host, port = node.addresses_told(request)[node_id]
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code)


def _is_share_key(key: str) -> bool:
    """Whether it names a share partition; a group's id may have colons of its own."""
    group_id, topic_id, index = key.rsplit(":", 2) if key.count(":") >= 2 else ("", "", "")
    if not group_id.strip() or not index.isdecimal():
        return False
    try:
        return bool(uuid_from(topic_id))
    except ValueError:
        return False
