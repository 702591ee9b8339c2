"""ApiVersions: what is served, in which versions, and which features are on (KIP-35, KIP-511, KIP-584)."""

from __future__ import annotations

import re

from oncelog.broker.handlers import MODULES, version_max
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import finalized_features, supported_features
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

# Told where the metrics of clients can be seen, as Apache Kafka tells it where a plugin receives them: librdkafka prints a line
# for each client that is given an instance id, and all would ask every five minutes for nothing.
OF_RECEIVER = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


def handle(node: Node, request: Request) -> ApiVersionsResponse:
    """What is in `handlers.MODULES`, and the features."""
    message: ApiVersionsRequest = request.message
    if request.api_version >= 3:
        names = (message.client_software_name, message.client_software_version)
        if not all(len(name) < 1000 and _SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.connection.software = names
    metadata = node.metadata
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=APIS[key].advertised_min_version,
                max_version=version_max(node.metadata, key),
            )
            for key in sorted(MODULES)
            if key not in OF_RECEIVER or node.config.metrics_listen
        ],
        supported_features=supported_features(request.api_version),
        finalized_features_epoch=metadata.features_epoch,
        finalized_features=finalized_features(metadata.features),
    )
