"""ElectLeaders: on one node nobody needs to be elected."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.replicas import elect_leaders
from oncelog.wire.messages.elect_leaders import ElectLeadersResponse


def handle(node: Node, request: Request) -> ElectLeadersResponse:
    """What Kafka's controller says of leaders that are in their place."""
    return elect_leaders(node.metadata, request.message)
