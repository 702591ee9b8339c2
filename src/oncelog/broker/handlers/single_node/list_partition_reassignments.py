"""ListPartitionReassignments: nothing is ever on its way on one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(_broker: Broker, _request: Request) -> ListPartitionReassignmentsResponse:
    """None, whatever was asked for."""
    return ListPartitionReassignmentsResponse(error_message=None)
