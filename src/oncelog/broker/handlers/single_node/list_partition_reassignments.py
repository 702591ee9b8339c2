"""ListPartitionReassignments: nothing is ever on its way on one node."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse


def handle(_node: Node, _request: Request) -> ListPartitionReassignmentsResponse:
    """None, whatever was asked for."""
    return ListPartitionReassignmentsResponse(error_message=None)
