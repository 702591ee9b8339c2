"""ListConfigResources: what DescribeConfigs can be asked for (KIP-1142)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.request import Request
from oncelog.core.cluster_metadata import BROKER_RESOURCE, TOPIC_RESOURCE
from oncelog.errors import ErrorCode
from oncelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 8, 16, 32
_KNOWN = {TOPIC_RESOURCE, BROKER_RESOURCE, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP}


def handle(broker: Broker, request: Request) -> ListConfigResourcesResponse:
    """v0 asks for client metrics only, of which there are none; no types in v1 asks for all."""
    message: ListConfigResourcesRequest = request.message
    wanted = set(message.resource_types) if request.api_version > 0 else {_CLIENT_METRICS}
    if not wanted <= _KNOWN:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    wanted = wanted or _KNOWN
    found = []
    if TOPIC_RESOURCE in wanted:
        found += [ConfigResource(resource_name=name, resource_type=TOPIC_RESOURCE) for name in broker.metadata.topics]
    for kind in (BROKER_RESOURCE, _BROKER_LOGGER):
        if kind in wanted:
            found.append(ConfigResource(resource_name=str(broker.node_id), resource_type=kind))
    return ListConfigResourcesResponse(config_resources=found)
