"""DescribeAcls: the access rules that match a filter; 54 where no authorizer is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.acls import SWITCHED_OFF, UNKNOWN_NUMBERS, describe_acls, filter_of
from oncelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> DescribeAclsResponse:
    """What the metadata has now."""
    message: DescribeAclsRequest = request.message
    if filter_of(message).is_unknown:
        return DescribeAclsResponse(error_code=UNKNOWN_NUMBERS.error_code, error_message=UNKNOWN_NUMBERS.message)
    if broker.authorization is None:
        return DescribeAclsResponse(error_code=SWITCHED_OFF.error_code, error_message=SWITCHED_OFF.message)
    return describe_acls(broker.metadata.acls, message)
