"""ListGroups: the groups of all coordinators on this node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> ListGroupsResponse:
    """What passes the filters."""
    message: ListGroupsRequest = request.message
    response = ListGroupsResponse()
    for holder in broker.groups.loaded():
        response.groups += holder.machine.list_groups(message).reply.groups
    return response
