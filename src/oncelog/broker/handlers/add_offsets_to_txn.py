"""AddOffsetsToTxn: adds the group's partition of `__consumer_offsets` to the transaction."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator_shell import CoordinatorFailed
from oncelog.broker.request import Request
from oncelog.core.topic_configs import CONSUMER_OFFSETS_TOPIC
from oncelog.core.transaction_coordinator import coordinator_partition
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    """Held while the previous transaction is being completed, at most for the bound."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> AddOffsetsToTxnResponse:
    message: AddOffsetsToTxnRequest = request.message
    try:
        if not message.transactional_id:
            raise CoordinatorFailed(ErrorCode.INVALID_REQUEST)
        topic = await broker.topics.internal(CONSUMER_OFFSETS_TOPIC)
        name = TopicPartition(CONSUMER_OFFSETS_TOPIC, coordinator_partition(message.group_id, topic.partition_count))
        reply: AddOffsetsToTxnResponse = await broker.transactions.ask(
            message.transactional_id,
            lambda machine, now_ms: machine.add_offsets_to_txn(message, request.api_version, now_ms, name),
            request=request,
        )
    except CoordinatorFailed as failed:
        return AddOffsetsToTxnResponse(error_code=failed.error_code)
    except StorageError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return reply
