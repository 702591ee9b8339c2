"""AlterClientQuotas: set and remove quotas, each entity with its own result."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.quotas import alter_quotas
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, AlterClientQuotasResponse]:
    """Apply the valid entries; with validateOnly only check them."""
    return _handle(node, request.message)


async def _handle(node: Node, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    try:
        return await _alter(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _alter(node: Node, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    async with node.store.changing() as metadata:
        count_max = node.config.oncelog_max_client_quotas
        records, results = alter_quotas(metadata.client_quotas, message.entries, count_max)
        node.metrics.limit_hits_of("oncelog.max.client.quotas", results)
        refusal = None
        if records and not message.validate_only:
            refusal = await node.store.append_or_refuse(records)
    if refusal is not None:
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
    return AlterClientQuotasResponse(entries=results)


def _refused(message: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(
                error_code=refusal.error_code,
                error_message=refusal.message,
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
                ],
            )
            for entry in message.entries
        ]
    )
