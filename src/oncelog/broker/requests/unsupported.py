"""The answer to an ApiVersions request of an unknown version (KIP-511)."""

from __future__ import annotations

from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse


def unsupported_api_versions() -> ApiVersionsResponse:
    """The client asks again in a version that is named here."""
    own = APIS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)],
    )
