"""What describes of groups of a kind have in common: one group after the other, each from its own coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.groups.describe_groups import GROUP_OPERATIONS
from oncelog.broker.node import Node
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.features import level_of
from oncelog.errors import ErrorCode
from oncelog.wire.schema import Struct

Described = TypeVar("Described", bound=Struct)
Response = TypeVar("Response", bound=Struct)


async def ask(
    node: Node, group_id: str, decide: Callable[[GroupCoordinator], Decision], described_group: Callable[..., Described]
) -> Described:
    """The `described_group` of its coordinator's reply, or one that says why there is none."""
    try:
        reply: Any = await node.groups.ask(group_id, lambda machine, _now_ms: decide(machine))
    except CoordinatorFailed as failed:
        return described_group(group_id=group_id, error_code=failed.error_code)
    found: Described = reply.groups[0]
    return found


async def describe_each(
    node: Node,
    message: Any,
    describe: Callable[[str], Any],
    described_group: Callable[..., Any],
    response: Callable[..., Response],
    *,
    feature: str,
) -> Response:
    """A description of each group asked for; without the feature none is known."""
    if level_of(node.metadata.features, feature) < 1:
        refused = [
            described_group(group_id=each, error_code=ErrorCode.UNSUPPORTED_VERSION) for each in message.group_ids
        ]
        return response(groups=refused)
    found = []
    for group_id in message.group_ids:
        described = await describe(group_id)
        if message.include_authorized_operations:
            described.authorized_operations = GROUP_OPERATIONS
        found.append(described)
    return response(groups=found)
