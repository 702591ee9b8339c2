"""InitProducerId: a new producer id, or the next epoch of a transactional one."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request, reply_of
from oncelog.core.transactions.init_producer_id import new_producer_id
from oncelog.errors import ErrorCode
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, InitProducerIdResponse]:
    """Held while a transaction of the id is being completed, at most for the bound."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> InitProducerIdResponse:
    message: InitProducerIdRequest = request.message
    version = request.api_version
    if message.transactional_id is None:
        await node.producer_id_blocks.ensure()
        reply: InitProducerIdResponse = new_producer_id(node.producer_id_blocks.ids, message).reply
        node.producer_id_blocks.reserve_in_time()
        return reply
    if message.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        await node.transactions.admit(message.transactional_id)
    except CoordinatorFailed as failed:
        return _refused(failed.error_code)
    answer: InitProducerIdResponse = await reply_of(
        node.transactions.begin(
            message.transactional_id,
            lambda machine, now_ms: machine.init_producer_id(message, version, now_ms),
            _refused,
            request=request,
        )
    )
    return answer


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
