"""DescribeDelegationToken: the tokens that are asked for and may be seen; strangers see none, without an error."""

from __future__ import annotations

from oncelog.broker.config.token_terms import terms_of
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.tokens import may_ask_for_tokens
from oncelog.core.metadata.delegation_tokens import described_tokens
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.log_records.cluster_metadata import DelegationTokenRecord
from oncelog.wire.messages.describe_delegation_token import DescribeDelegationTokenResponse


def handle(node: Node, request: Request) -> DescribeDelegationTokenResponse:
    """From what is stored now."""
    terms = terms_of(node.config)
    if not may_ask_for_tokens(request):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not terms.secret:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    caller = None if node.authorization is None else node.authorization.caller_of(request)

    def may_describe(token: DelegationTokenRecord) -> bool:
        return (
            caller is None
            or caller.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or caller.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )

    tokens = described_tokens(
        node.metadata.delegation_tokens,
        terms,
        request.message,
        principal=request.connection.principal,
        may_describe=may_describe,
        version=request.api_version,
    )
    return DescribeDelegationTokenResponse(tokens=tokens)
