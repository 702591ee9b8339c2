"""ListGroups: the groups of all coordinators on this node."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(node: Node, request: Request) -> ListGroupsResponse:
    """What passes the filters."""
    message: ListGroupsRequest = request.message
    response = ListGroupsResponse()
    for coordinator in node.groups.loaded():
        response.groups += coordinator.machine.list_groups(message).reply.groups
    return response
