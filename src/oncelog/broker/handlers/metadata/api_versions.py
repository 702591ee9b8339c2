"""ApiVersions: what is served, in which versions, and which features are on (facts 2.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import finalized_features, supported_features
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, request: Request) -> ApiVersionsResponse:
    """Everything in `handlers.MODULES`, and the features."""
    message: ApiVersionsRequest = request.message
    if request.api_version >= 3:
        names = (message.client_software_name, message.client_software_version)
        if not all(len(name) < 1000 and _SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    metadata = broker.metadata
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=APIS[key].advertised_min_version,
                max_version=broker.max_version(key),
            )
            for key in broker.served_apis()
        ],
        supported_features=supported_features(request.api_version),
        finalized_features_epoch=metadata.features_epoch,
        finalized_features=finalized_features(metadata.features),
    )


def unsupported_api_versions() -> ApiVersionsResponse:
    """The answer to an ApiVersions version that is not served: the client asks again in one that is (KIP-511)."""
    own = APIS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)],
    )
