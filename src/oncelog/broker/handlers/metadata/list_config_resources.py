"""ListConfigResources: what DescribeConfigs can be asked for (KIP-1142)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.cluster import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from oncelog.errors import ErrorCode
from oncelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_KNOWN = {TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE}


def handle(node: Node, request: Request) -> ListConfigResourcesResponse:
    """v0 asks for client metrics only; no types in v1 asks for all."""
    message: ListConfigResourcesRequest = request.message
    wanted = set(message.resource_types) if request.api_version > 0 else {CLIENT_METRICS_RESOURCE}
    if not wanted <= _KNOWN:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    wanted = wanted or _KNOWN
    metadata = node.metadata
    names: dict[int, Iterable[str]] = {
        GROUP_RESOURCE: metadata.group_configs,
        CLIENT_METRICS_RESOURCE: metadata.client_metrics_configs,
        BROKER_LOGGER_RESOURCE: [str(node.node_id)],
        BROKER_RESOURCE: [str(node.node_id)],
        TOPIC_RESOURCE: metadata.topics,
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in wanted
            for name in found
        ]
    )
