"""ShareGroupHeartbeat: a member of a share group joins, stays, or leaves (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import NOTHING, Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.groups.share.group import JOIN_EPOCH
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Asked of the group's coordinator, after the partitions that the group will read have a state."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> ShareGroupHeartbeatResponse:
    message: ShareGroupHeartbeatRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    beat = _Beat(node, request)
    try:
        if message.group_id:
            await node.groups.admit(message.group_id)
            if message.member_epoch == JOIN_EPOCH:
                await node.groups.admit_member(message.group_id, message.member_id, None)
        reply = await beat.asked()
        if reply is None:
            reply = await node.share_partitions.changes.run(request.connection.tasks, message.group_id, beat.begun)
    except CoordinatorFailed as failed:
        return ShareGroupHeartbeatResponse(error_code=failed.error_code)
    return reply


class _Beat:
    """One heartbeat. Most begin nothing; the others are changes of their group."""

    def __init__(self, node: Node, request: Request) -> None:
        self._node = node
        self._request = request
        self._message: ShareGroupHeartbeatRequest = request.message
        self._begun: dict[bytes, frozenset[int]] = {}
        self._is_change = False

    async def asked(self) -> ShareGroupHeartbeatResponse | None:
        """The answer; None where more must begin before, or the group is being changed. Raises CoordinatorFailed."""
        reply: ShareGroupHeartbeatResponse | None = await self._node.groups.ask(self._message.group_id, self._decide)
        return reply

    def _decide(self, machine: GroupCoordinator, now_ms: int) -> Decision:
        message, request = self._message, self._request
        is_in_turn = self._is_change or not self._node.share_partitions.changes.is_under_way(message.group_id)
        if message.group_id and not (is_in_turn and self._has_begun_all(machine)):
            return NOTHING
        return machine.share_group_heartbeat(
            message,
            client_id=request.client_id,
            client_host=f"/{request.connection.client_host}",
            begun=self._begun,
            now_ms=now_ms,
        )

    def _has_begun_all(self, machine: GroupCoordinator) -> bool:
        wanted = machine.share_groups.to_begin(self._message)
        return all(indexes <= self._begun.get(topic_id, frozenset()) for topic_id, indexes in wanted.items())

    async def begun(self) -> ShareGroupHeartbeatResponse:
        """The answer, after the partitions that the group will read have a state. Raises CoordinatorFailed."""
        self._is_change = True
        machine = (await self._node.groups.coordinator_of(self._message.group_id)).machine
        reply = None
        while reply is None:  # what is wanted may have become more meanwhile: a topic was made
            await self._begin(machine)
            reply = await self.asked()
        keys = self._keys(self._begun)
        # Of a heartbeat that was refused, or a topic that was deleted meanwhile.
        await self._node.share_partitions.forget({key for key in keys if not machine.share_groups.has_begun(key)})
        return reply

    def _keys(self, partitions: Mapping[bytes, frozenset[int]]) -> list[ShareKey]:
        return [
            ShareKey(self._message.group_id, topic_id, each) for topic_id, some in partitions.items() for each in some
        ]

    async def _begin(self, machine: GroupCoordinator) -> None:
        wanted = machine.share_groups.to_begin(self._message)
        shares, limit = self._node.share_partitions, self._node.config.oncelog_max_committed_offsets
        keys = self._keys(wanted)
        if keys and shares.coordinators.key_count + len(keys) > limit:
            self._node.metrics.limit_hit("oncelog.max.committed.offsets")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)
        self._begun |= wanted
        await shares.coordinators.begin(keys)
