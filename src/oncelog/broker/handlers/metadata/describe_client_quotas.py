"""DescribeClientQuotas: the quotas of the entities that match a filter."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.quotas import describe_quotas
from oncelog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse


def handle(node: Node, request: Request) -> DescribeClientQuotasResponse:
    """What the metadata has now."""
    return describe_quotas(node.metadata.client_quotas, request.message)
