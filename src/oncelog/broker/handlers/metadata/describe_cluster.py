"""DescribeCluster: the brokers there are, one where not several processes share the work."""

from __future__ import annotations

from oncelog.broker.handlers.metadata.metadata import CLUSTER_OPERATIONS, NO_OPERATIONS
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


def handle(node: Node, request: Request) -> DescribeClusterResponse:
    """Endpoint type 2 (controllers) is for controllers' listeners; this one is a broker's (docs/kafka-notes.md A6)."""
    message: DescribeClusterRequest = request.message
    if message.endpoint_type != _BROKERS:
        is_known = message.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type.",
        )
    told = node.addresses_told(request).items()
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.leadership.controller_id,
        brokers=[DescribeClusterBroker(broker_id=node_id, host=host, port=port) for node_id, (host, port) in told],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else NO_OPERATIONS
        ),
    )
