"""IncrementalAlterConfigs: set, delete, append to or subtract from dynamic configs (KIP-339)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from oncelog.broker.config.loggers import alter_loggers
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.cluster import BROKER_LOGGER_RESOURCE
from oncelog.core.metadata.configs import (
    OF_THE_CONTROLLER,
    Change,
    incremental_changes,
    malformed_changes,
    unknown_operation,
)
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.errors import ErrorCode
from oncelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, IncrementalAlterConfigsResponse]:
    """Change what may be changed; each resource has its own result."""
    return _handle(node, request.message)


async def _handle(node: Node, message: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    try:
        return await _alter(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _alter(node: Node, message: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    asked_times = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)
    unreadable = _unreadable(message.resources, asked_times)
    responses = []
    async with node.store.changing():
        for resource in message.resources:
            kind, name = resource.resource_type, resource.resource_name
            if asked_times[kind, name] > 1:
                outcome: object = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            elif kind == BROKER_LOGGER_RESOURCE:
                outcome = alter_loggers(name, node.node_id, _changes(resource), is_only_checked=message.validate_only)
            elif unreadable is not None and kind in OF_THE_CONTROLLER:
                outcome = malformed_changes(_changes(resource)) or unreadable
            else:
                changes = _changes(resource)
                outcome = incremental_changes(node.metadata, kind, name, changes, node.dynamic_keys())
            response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
            if isinstance(outcome, Refusal):
                node.topics.count_limit(outcome)
                response.error_code, response.error_message = outcome.error_code, outcome.message
            elif isinstance(outcome, list) and outcome and not message.validate_only:
                refusal = await node.store.append_or_refuse(outcome)
                if refusal is not None:
                    response.error_code, response.error_message = refusal.error_code, refusal.message
            responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)


def _unreadable(
    resources: Sequence[AlterConfigsResource], asked_times: Mapping[tuple[int, str], int]
) -> Refusal | None:
    """What Kafka's controller answers for everything that it is asked in a request with an operation that does not exist:
    UNKNOWN_SERVER_ERROR; a resource that the broker refused before is not among it."""
    for resource in resources:
        kind, changes = resource.resource_type, _changes(resource)
        if kind in OF_THE_CONTROLLER and asked_times[kind, resource.resource_name] == 1:
            unknown = None if malformed_changes(changes) else unknown_operation(kind, changes)
            if unknown is not None:
                return unknown
    return None


def _changes(resource: AlterConfigsResource) -> list[Change]:
    return [Change(each.name, each.config_operation, each.value) for each in resource.configs]


def _refused(message: IncrementalAlterConfigsRequest, refusal: Refusal) -> IncrementalAlterConfigsResponse:
    late = AlterConfigsResourceResponse(error_code=refusal.error_code, error_message=refusal.message)
    return IncrementalAlterConfigsResponse(
        responses=[
            late.replace(resource_type=each.resource_type, resource_name=each.resource_name)
            for each in message.resources
        ]
    )
