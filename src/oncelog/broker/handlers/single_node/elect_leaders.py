"""ElectLeaders: on one node nobody needs to be elected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.replicas import elect_leaders
from oncelog.wire.messages.elect_leaders import ElectLeadersResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> ElectLeadersResponse:
    """What Kafka's controller says of leaders that are in their place."""
    return elect_leaders(broker.metadata, request.message)
