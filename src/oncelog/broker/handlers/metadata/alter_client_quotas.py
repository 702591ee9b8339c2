"""AlterClientQuotas: set and remove quotas, each entity with its own result."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.quotas import alter_quotas
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, AlterClientQuotasResponse]:
    """Write what is right, unless it is only to be checked."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    async with broker.store.changing() as metadata:
        count_max = broker.config.oncelog_max_client_quotas
        records, results = alter_quotas(metadata.client_quotas, message.entries, count_max)
        broker.metrics.limit_hits_of("oncelog.max.client.quotas", results)
        refusal = None
        if records and not message.validate_only:
            refusal = await broker.store.append_or_refuse(records)
    if refusal is not None:
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
    return AlterClientQuotasResponse(entries=results)
