"""All streams groups of one coordinator (KIP-1071).

As in `consumer.groups` a group is in one table only, decisions look at what is appended (`is_ahead` says when an answer has to
wait for the log), and if the log fails this object is of no more use. A classic group without members becomes a streams group
when such a member joins; a group with members, or of another kind, does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import Group, WallClock
from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer.group import Topics
from oncelog.core.groups.consumer.heartbeat import MemberClient
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.change import StreamsChange
from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.core.groups.streams.heartbeat import (
    StreamsHeartbeatResult,
    ask_to_shut_down,
    check_heartbeat,
    check_room,
    heartbeat,
    leaving_member,
)
from oncelog.core.groups.streams.member import JOIN_EPOCH, LEAVE_EPOCH, MemberState
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, GroupDeleted
from oncelog.wire.log_records.streams_groups import StreamsGroupKey, StreamsGroupRecord, StreamsTombstone
from oncelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

Overrides = Callable[[str], Mapping[str, str]]


class StreamsGroups:
    """The table of streams groups. `classic` is the table of classic groups, `is_other` whether a group is of a third kind,
    `overrides` a group's own configs."""

    def __init__(
        self,
        config: GroupConfig,
        classic: dict[str, Group],
        offsets: CommittedOffsets,
        *,
        topics: Topics,
        clock: WallClock,
        overrides: Overrides,
        is_other: Callable[[str], bool],
    ) -> None:
        self.by_id: dict[str, StreamsGroup] = {}
        self.topics = topics
        self._config = config
        self._classic = classic
        self._offsets = offsets
        self._clock = clock
        self._overrides = overrides
        self._is_other = is_other
        self._beginning: dict[str, StreamsGroup] = {}  # decided, not in the log
        self._ahead: deque[StreamsGroupRecord] = deque()

    def reconfigured(self, config: GroupConfig) -> None:
        """The broker's keys were altered: groups go by them from their next step on."""
        self._config = config

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether there are changes that the log may still lose."""
        return bool(self._ahead)

    def appended(self, record: StreamsGroupRecord) -> None:
        """The record is in the log, not committed there yet."""
        self._ahead.append(record)
        self._replay(record)

    def failed(self, record: StreamsGroupRecord) -> None:
        """The record is not in the log."""
        self._beginning.pop(record.group_id, None)
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()

    def apply(self, record: StreamsGroupRecord) -> None:
        """One committed record: live it has been taken over with its append, in recovery it is now."""
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()
            self._drop_bare_classic(record)
        else:
            self._replay(record)

    def _drop_bare_classic(self, record: StreamsGroupRecord) -> None:
        """A deleted group's offsets go with the commit of the same batch, and with them what kept them."""
        group = self._classic.get(record.group_id)
        if group is None or group.metadata is not None or group.members or group.pending_members:
            return
        if not self._offsets.has_any(record.group_id):
            del self._classic[record.group_id]

    def _replay(self, record: StreamsGroupRecord) -> None:
        group_id = record.group_id
        group = self.by_id.get(group_id)
        if group is None:
            if isinstance(record, StreamsTombstone):
                return
            group = self.by_id[group_id] = self._beginning.pop(group_id, StreamsGroup(group_id))
            self._classic.pop(group_id, None)
        group.replay(record)
        if isinstance(record, StreamsTombstone) and record.key is StreamsGroupKey.GROUP_EPOCH:
            del self.by_id[group_id]
            if self._offsets.has_any(group_id) and group_id not in self._classic:
                self._classic[group_id] = Group(group_id, clock=self._clock)

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: every member gets a fresh session."""
        for group_id in [each for each, group in self.by_id.items() if group.is_bare]:
            del self.by_id[group_id]
        for group in self.by_id.values():
            timeout_ms = self.change(group, now_ms).settings.session_timeout_ms
            for member in group.members.values():
                group.set_timer(member.member_id, MemberTimer.SESSION, now_ms + timeout_ms)
                if member.state is MemberState.UNREVOKED_TASKS:
                    group.set_timer(member.member_id, MemberTimer.REBALANCE, now_ms + member.rebalance_timeout_ms)
                    group.revoking_epochs[member.member_id] = member.member_epoch

    # -- requests --------------------------------------------------------------------------------------------------

    def change(self, group: StreamsGroup, now_ms: int) -> StreamsChange:
        """A decision about this group, to be made."""
        settings = self._config.streams_settings(self._overrides(group.group_id))
        return StreamsChange(group, settings, self.topics, now_ms, self._clock.offset_ms)

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: MemberClient, now_ms: int) -> Decision:
        """StreamsGroupHeartbeat v0; the reply is a `StreamsHeartbeatResult`."""
        try:
            check_heartbeat(request)
            if request.member_epoch == LEAVE_EPOCH:
                return self._leave(request, now_ms)
            group, first = self._group_to_join(request)
            change = self.change(group, now_ms)
            result = heartbeat(change, request, caller, is_new_group=request.group_id not in self.by_id)
        except Refused as refused:
            response = StreamsGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message)
            return Decision(reply=StreamsHeartbeatResult(response))
        if request.group_id not in self.by_id:
            group.configured = None  # as in Kafka: told as the member said it until the next heartbeat
            self._beginning[request.group_id] = group
        return Decision(records=(*first, *change.records), reply=result)

    def _group_to_join(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, list[ConsumerOffsetsRecord]]:
        """The group, and what has to be logged first where it is new. Raises Refused."""
        group_id, is_joining = request.group_id, request.member_epoch == JOIN_EPOCH
        group = self.by_id.get(group_id)
        if group is not None:
            if is_joining:
                check_room(group, self._config)
            return group, []
        classic = self._classic.get(group_id)
        is_taken = self._is_other(group_id) or (classic is not None and bool(classic.members))
        if is_taken or (classic is not None and not is_joining):
            raise _not_found(group_id, is_other=True)
        if not is_joining:
            raise _not_found(group_id, is_other=False, kind="Streams group")
        is_logged = classic is not None and classic.metadata is not None
        return StreamsGroup(group_id), [GroupDeleted(group_id)] if is_logged else []

    def _leave(self, request: StreamsGroupHeartbeatRequest, now_ms: int) -> Decision:
        group = self.by_id.get(request.group_id)
        if group is None:
            is_other = request.group_id in self._classic or self._is_other(request.group_id)
            raise _not_found(request.group_id, is_other=is_other)
        if request.shutdown_application:
            ask_to_shut_down(group, request.member_id)
        change = self.change(group, now_ms)
        change.remove([leaving_member(group, request.member_id).member_id])
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return Decision(records=tuple(change.records), reply=StreamsHeartbeatResult(response))

    # -- time ------------------------------------------------------------------------------------------------------

    def overdue(self, group: StreamsGroup, now_ms: int) -> list[ConsumerOffsetsRecord]:
        """What follows for members whose time is over, and for a group that has waited for its first members."""
        change = self.change(group, now_ms)
        change.remove(group.take_overdue(now_ms))
        if group.initial_delay_ms is not None and group.initial_delay_ms <= now_ms:
            group.initial_delay_ms = None
            if not change.records:  # else the epoch has just grown, and the next heartbeat shares
                change.compute_delayed()
        return change.records


def _not_found(group_id: str, *, is_other: bool, kind: str = "Group") -> Refused:
    message = f"Group {group_id} is not a streams group." if is_other else f"{kind} {group_id} not found."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
