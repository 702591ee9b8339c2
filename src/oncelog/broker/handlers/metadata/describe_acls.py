"""DescribeAcls: the access rules that match a filter; 54 where no authorizer is configured."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.acls import SWITCHED_OFF, UNKNOWN_NUMBERS, describe_acls, filter_of
from oncelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(node: Node, request: Request) -> DescribeAclsResponse:
    """What the metadata has now."""
    message: DescribeAclsRequest = request.message
    if filter_of(message).is_unknown:
        return DescribeAclsResponse(error_code=UNKNOWN_NUMBERS.error_code, error_message=UNKNOWN_NUMBERS.message)
    if node.authorization is None:
        return DescribeAclsResponse(error_code=SWITCHED_OFF.error_code, error_message=SWITCHED_OFF.message)
    return describe_acls(node.metadata.acls, message)
