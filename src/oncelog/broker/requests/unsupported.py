"""Answers to what is not served: an ApiVersions request of an unknown version (KIP-511), requests about tokens."""

from __future__ import annotations

from oncelog.broker.requests.request import ANONYMOUS, Request
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


def refusal_of_tokens(request: Request) -> ErrorCode:
    """Whoever has a principal could have a token, where there were any."""
    if request.connection.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
