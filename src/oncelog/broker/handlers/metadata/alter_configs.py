"""AlterConfigs, the old form: what is named becomes the whole dynamic configuration of the resource."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.configs import SET, Change, whole_change
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, AlterConfigsResponse]:
    """Change what may be changed; each resource has its own result."""
    return _handle(node, request.message)


async def _handle(node: Node, message: AlterConfigsRequest) -> AlterConfigsResponse:
    try:
        return await _alter(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _alter(node: Node, message: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = []
    async with node.store.changing():
        for resource in message.resources:
            kind, name = resource.resource_type, resource.resource_name
            values = [Change(each.name, SET, each.value) for each in resource.configs]
            outcome = whole_change(node.metadata, kind, name, values, node.dynamic_keys())
            response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
            if isinstance(outcome, Refusal):
                node.topics.count_limit(outcome)
                response.error_code, response.error_message = outcome.error_code, outcome.message
            elif outcome and not message.validate_only:
                refusal = await node.store.append_or_refuse(outcome)
                if refusal is not None:
                    response.error_code, response.error_message = refusal.error_code, refusal.message
            responses.append(response)
    return AlterConfigsResponse(responses=responses)


def _refused(message: AlterConfigsRequest, refusal: Refusal) -> AlterConfigsResponse:
    late = AlterConfigsResourceResponse(error_code=refusal.error_code, error_message=refusal.message)
    return AlterConfigsResponse(
        responses=[
            late.replace(resource_type=each.resource_type, resource_name=each.resource_name)
            for each in message.resources
        ]
    )
