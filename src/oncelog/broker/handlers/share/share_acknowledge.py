"""ShareAcknowledge: what became of records, without asking for more (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.handlers.share.acknowledging import acknowledge_all
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.core.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey, RefusedSession, ShareSession, Wanted
from oncelog.errors import ErrorCode
from oncelog.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

E = ErrorCode


def handle(node: Node, request: Request) -> ShareAcknowledgeResponse | Coroutine[Any, Any, ShareAcknowledgeResponse]:
    """Of a session that ShareFetch opened; epoch -1 ends it and gives back what the member still has."""
    message: ShareAcknowledgeRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return ShareAcknowledgeResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id or not message.member_id:
        return ShareAcknowledgeResponse(error_code=E.INVALID_REQUEST)
    key, sessions = MemberKey(message.group_id, message.member_id), node.share_partitions.sessions
    if message.share_session_epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(error_code=E.INVALID_SHARE_SESSION_EPOCH)
    if message.share_session_epoch == FINAL_EPOCH:
        return _end(node, request, key)
    session = sessions.follow(key, message.share_session_epoch)
    if isinstance(session, RefusedSession):
        return ShareAcknowledgeResponse(error_code=session.error_code)
    return _answer(node, request, session)


async def _end(node: Node, request: Request, key: MemberKey) -> ShareAcknowledgeResponse:
    with node.share_partitions.ending(key) as session:
        if isinstance(session, RefusedSession):
            return ShareAcknowledgeResponse(error_code=session.error_code)
        return await _answer(node, request, session)


async def _answer(node: Node, request: Request, session: ShareSession) -> ShareAcknowledgeResponse:
    message: ShareAcknowledgeRequest = request.message
    batches = {
        Wanted(bytes(topic.topic_id), part.partition_index): part.acknowledgement_batches
        for topic in message.topics
        for part in topic.partitions
    }
    acknowledged = await acknowledge_all(node, request, session, batches, is_renewal=message.is_renew_ack)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for wanted, outcome in acknowledged.items():
        topic = topics.setdefault(wanted.topic_id, ShareAcknowledgeTopicResponse(topic_id=wanted.topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=wanted.partition,
                error_code=outcome.error_code,
                error_message=outcome.message or None,
            )
        )
    lock_duration_ms = node.share_partitions.settings(session.key.group_id).lock_duration_ms
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_duration_ms, responses=list(topics.values()))
