"""ListGroups: the groups of all coordinators on this node."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ListGroupsResponse]:
    """What passes the filters, and is stored; a coordinator whose log fails has nothing to tell."""
    return _handle(node, request.message)


async def _handle(node: Node, message: ListGroupsRequest) -> ListGroupsResponse:
    response = ListGroupsResponse()
    shares = [each.perform(each.machine.list_groups(message)) for each in node.groups.loaded()]
    for share in shares:
        with contextlib.suppress(CoordinatorFailed):
            response.groups += (await share).groups
    return response
