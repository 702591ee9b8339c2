"""AlterConfigs, the old form: what is named becomes the whole dynamic configuration of the resource."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.configs import SET, Change, whole_change
from oncelog.core.metadata.topics import Refusal
from oncelog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, AlterConfigsResponse]:
    """Change what may be changed; each resource has its own result."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = []
    async with broker.store.changing():
        for resource in message.resources:
            kind, name = resource.resource_type, resource.resource_name
            values = [Change(each.name, SET, each.value) for each in resource.configs]
            outcome = whole_change(broker.metadata, kind, name, values, broker.dynamic_keys())
            response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
            if isinstance(outcome, Refusal):
                broker.topics.count_limit(outcome)
                response.error_code, response.error_message = outcome.error_code, outcome.message
            elif outcome and not message.validate_only:
                refusal = await broker.store.append_or_refuse(outcome)
                if refusal is not None:
                    response.error_code, response.error_message = refusal.error_code, refusal.message
                broker.configs_changed()
            responses.append(response)
    return AlterConfigsResponse(responses=responses)
