"""AddOffsetsToTxn: adds the group's partition of `__consumer_offsets` to the transaction."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Reply, Request, reply_of
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(node: Node, request: Request) -> Reply:
    """Held while the previous transaction is being completed, at most for the bound."""
    message: AddOffsetsToTxnRequest = request.message
    if not message.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    topic = node.metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
    return _when_there(node, request) if topic is None else _begin(node, request, topic)


async def _when_there(node: Node, request: Request) -> Reply:
    try:
        topic = await node.topics.internal(CONSUMER_OFFSETS_TOPIC)
    except StorageError:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return await reply_of(_begin(node, request, topic))


def _begin(node: Node, request: Request, topic: Topic) -> Reply:
    message: AddOffsetsToTxnRequest = request.message
    name = TopicPartition(CONSUMER_OFFSETS_TOPIC, coordinator_partition(message.group_id, topic.partition_count))
    return node.transactions.begin(
        message.transactional_id,
        lambda machine, now_ms: machine.add_offsets_to_txn(message, request.api_version, now_ms, name),
        _refused,
        request=request,
        is_for_append=True,
    )


def _refused(code: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)
