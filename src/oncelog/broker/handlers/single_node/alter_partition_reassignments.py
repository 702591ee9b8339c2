"""AlterPartitionReassignments: on one node a partition can only be where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.replicas import alter_reassignments
from oncelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> AlterPartitionReassignmentsResponse:
    """Each partition has its own result."""
    return alter_reassignments(broker.metadata, request.message, broker.node_id)
