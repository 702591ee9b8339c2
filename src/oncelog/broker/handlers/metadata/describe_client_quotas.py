"""DescribeClientQuotas: the quotas of the entities that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.quotas import describe_quotas
from oncelog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> DescribeClientQuotasResponse:
    """What the metadata has now."""
    return describe_quotas(broker.metadata.client_quotas, request.message)
