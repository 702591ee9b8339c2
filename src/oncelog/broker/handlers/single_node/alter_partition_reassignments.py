"""AlterPartitionReassignments: on one node a partition can only be where it is."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.replicas import alter_reassignments
from oncelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse


def handle(node: Node, request: Request) -> AlterPartitionReassignmentsResponse:
    """Each partition has its own result."""
    return alter_reassignments(node.metadata, request.message, node.leadership)
