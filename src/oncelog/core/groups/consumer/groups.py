"""All groups of KIP-848 of one coordinator, and the way between them and the classic groups beside them.

A group is in one of the two tables, never in both. Decisions look at what is appended, not only at what is committed
(`replay` runs with the append), because a member's next step depends on the one before; so the shell keeps an answer
back until the log has everything that it may rest on (`is_ahead`). If the log then fails, its partition is offline and
this object of no more use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import Group, WallClock
from oncelog.core.groups.classic.rebalance import Outcome, join_error, sync_error
from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer import classic_members as consumer_group_classic
from oncelog.core.groups.consumer import heartbeat as consumer_group_heartbeat
from oncelog.core.groups.consumer.change import GroupChange
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics
from oncelog.core.groups.consumer.heartbeat import MemberClient
from oncelog.core.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerGroupMember, MemberState
from oncelog.core.groups.consumer.migration import check_upgrade, downgraded, may_downgrade, upgraded
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_groups import ConsumerGroupKey, ConsumerGroupRecord, Tombstone
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, GroupDeleted
from oncelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog.wire.messages.join_group import JoinGroupRequest

Overrides = Callable[[str], Mapping[str, str]]


class ConsumerGroups:
    """The table of consumer groups. `classic` is the table of classic groups, `overrides` a group's own configs, `is_other`
    whether a group is of a third kind."""

    def __init__(
        self,
        config: GroupConfig,
        classic: dict[str, Group],
        offsets: CommittedOffsets,
        *,
        topics: Topics | None = None,
        clock: WallClock | None = None,
        overrides: Overrides = lambda _: {},
        is_other: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.by_id: dict[str, ConsumerGroup] = {}
        self.topics: Topics = topics or ClusterMetadata()
        self.to_rebalance: list[Group] = []  # downgraded: the members that stay share anew
        self._config = config
        self._classic = classic
        self._offsets = offsets
        self._clock = clock or WallClock()
        self._overrides = overrides
        self._is_other = is_other
        self._beginning: dict[str, ConsumerGroup] = {}  # decided, not in the log
        self._downgraded: dict[str, tuple[Group, bool]] = {}  # likewise; whether its members have to share anew
        self._ahead: deque[ConsumerGroupRecord] = deque()

    def reconfigured(self, config: GroupConfig) -> None:
        """The broker's keys were altered: groups go by them from their next step on."""
        self._config = config

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether there are changes that the log may still lose."""
        return bool(self._ahead)

    def appended(self, record: ConsumerGroupRecord) -> None:
        """The record is in the log, not committed there yet."""
        self._ahead.append(record)
        self._replay(record)

    def failed(self, record: ConsumerGroupRecord) -> None:
        """The record is not in the log."""
        self._beginning.pop(record.group_id, None)
        self._downgraded.pop(record.group_id, None)
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()

    def apply(self, record: ConsumerGroupRecord) -> None:
        """One committed record: live it has been taken over with its append, in recovery it is now."""
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()
            self._drop_bare_classic(record)
        else:
            self._replay(record)

    def _drop_bare_classic(self, record: ConsumerGroupRecord) -> None:
        """A deleted group's offsets go with the commit of the same batch, and with them what kept them."""
        group = self._classic.get(record.group_id)
        if group is None or group.metadata is not None or group.members or group.pending_members:
            return
        if not self._offsets.has_any(record.group_id):
            del self._classic[record.group_id]

    def _replay(self, record: ConsumerGroupRecord) -> None:
        group_id = record.group_id
        group = self.by_id.get(group_id)
        if group is None:
            if isinstance(record, Tombstone):
                return
            group = self.by_id[group_id] = self._beginning.pop(group_id, ConsumerGroup(group_id))
            self._classic.pop(group_id, None)
        group.replay(record)
        if isinstance(record, Tombstone) and record.key is ConsumerGroupKey.GROUP_EPOCH:
            del self.by_id[group_id]
            self._leave_to_classic(group_id)

    def _leave_to_classic(self, group_id: str) -> None:
        if group_id in self._downgraded:
            self._classic[group_id], must_share_anew = self._downgraded.pop(group_id)
            if must_share_anew:
                self.to_rebalance.append(self._classic[group_id])
        elif self._offsets.has_any(group_id) and group_id not in self._classic:
            self._classic[group_id] = Group(group_id, clock=self._clock)

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: every member gets a fresh session."""
        for group_id in [each for each, group in self.by_id.items() if group.is_bare]:
            del self.by_id[group_id]
        for group in self.by_id.values():
            self._begin_sessions(group, now_ms)
            for member in group.members.values():
                classic = member.classic
                if member.state is MemberState.UNREVOKED_PARTITIONS and classic is None:
                    deadline_ms = now_ms + member.rebalance_timeout_ms
                    group.set_timer(member.member_id, MemberTimer.REBALANCE, deadline_ms)
                    group.revoking_epochs[member.member_id] = member.member_epoch

    def _begin_sessions(self, group: ConsumerGroup, now_ms: int) -> None:
        settings = self._config.consumer_settings(self._overrides(group.group_id))
        for member in group.members.values():
            timeout_ms = settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
            group.set_timer(member.member_id, MemberTimer.SESSION, now_ms + timeout_ms)

    # -- the new protocol ------------------------------------------------------------------------------------------

    def change(self, group: ConsumerGroup, now_ms: int) -> GroupChange:
        """A decision about this group, to be made."""
        settings = self._config.consumer_settings(self._overrides(group.group_id))
        return GroupChange(group, self._config, settings, self.topics, now_ms, self._clock.offset_ms)

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        caller: MemberClient,
        new_member_id: str,
        now_ms: int,
    ) -> Decision:
        """ConsumerGroupHeartbeat v0-1."""
        try:
            consumer_group_heartbeat.check_heartbeat(request, version, self._config.assignors)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(request, now_ms)
            group, first = self._group_to_join(request.group_id, now_ms, may_create=request.member_epoch == 0)
            change = self.change(group, now_ms)
            reply = consumer_group_heartbeat.heartbeat(change, request, caller, new_member_id)
        except Refused as refused:
            return Decision(
                reply=ConsumerGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message)
            )
        outcome = Outcome(records=[*first, *change.records])
        if request.group_id not in self.by_id:
            self._beginning[request.group_id] = group
            self._send_away(self._classic.get(request.group_id), outcome)
        return outcome.decision(reply)

    def _group_to_join(
        self, group_id: str, now_ms: int, *, may_create: bool
    ) -> tuple[ConsumerGroup, list[ConsumerOffsetsRecord]]:
        """The group, and what has to be logged first where it is new. Raises Refused."""
        group = self.by_id.get(group_id)
        if group is not None:
            return group, []
        classic = self._classic.get(group_id)
        is_other = self._is_other(group_id)
        if is_other or not may_create:
            raise _not_found(group_id, is_other=is_other or classic is not None, kind="Consumer group")
        if classic is None or not classic.members:
            is_logged = classic is not None and classic.metadata is not None
            return ConsumerGroup(group_id), [GroupDeleted(group_id)] if is_logged else []
        check_upgrade(classic, self._config)
        new, records = upgraded(classic, self.topics)
        self._begin_sessions(new, now_ms)  # who is dead by now does not come, and would keep its partitions for ever
        return new, records

    @staticmethod
    def _send_away(classic: Group | None, outcome: Outcome) -> None:
        """Members of a classic group that wait in a rebalance join the consumer group instead."""
        for member in [] if classic is None else classic.members.values():
            if member.is_awaiting_join:
                outcome.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            if member.is_awaiting_sync:
                outcome.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decision:
        group = self.by_id.get(request.group_id)
        if group is None:
            is_other = request.group_id in self._classic or self._is_other(request.group_id)
            raise _not_found(request.group_id, is_other=is_other)
        change = self.change(group, now_ms)
        member = consumer_group_heartbeat.leaving_member(group, request)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            reply = consumer_group_heartbeat.leave_for_a_while(change, member)
        else:
            reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
            self.fence(change, [member.member_id])
        return Decision(records=tuple(change.records), reply=reply)

    # -- members that go -------------------------------------------------------------------------------------------

    def fence(self, change: GroupChange, member_ids: list[str]) -> None:
        """These are out. Where only classic members remain, the group becomes a classic one."""
        group = change.group
        leaving = {each: group.members[each] for each in member_ids}
        if not leaving:
            return
        if may_downgrade(group, leaving, self._config):
            self._downgrade(change, leaving, None, must_share_anew=True)
        else:
            change.remove(leaving)
        for member_id in leaving:
            group.forget_timers(member_id)

    def _downgrade(
        self,
        change: GroupChange,
        leaving: Mapping[str, ConsumerGroupMember],
        joining: ConsumerGroupMember | None,
        *,
        must_share_anew: bool,
    ) -> None:
        group = change.group
        classic = downgraded(group, leaving, joining, self.topics, change.now_ms, self._clock)
        self._downgraded[group.group_id] = classic, must_share_anew
        change.records[:] = [*group.tombstones(), classic.to_metadata()]

    def overdue(self, group: ConsumerGroup, now_ms: int) -> list[ConsumerOffsetsRecord]:
        """What follows for members whose time is over."""
        change = self.change(group, now_ms)
        self.fence(change, group.take_overdue(now_ms))
        return change.records

    def resolved_regexes(self, now_ms: int) -> list[ConsumerOffsetsRecord]:
        """What the patterns match for which somebody waits."""
        records: list[ConsumerOffsetsRecord] = []
        for group in self.waiting_for_regexes():
            change = self.change(group, now_ms)
            change.resolve_regexes()
            records += change.records
        return records

    def waiting_for_regexes(self) -> list[ConsumerGroup]:
        """The groups that have patterns to resolve."""
        return [each for each in self.by_id.values() if each.must_resolve_regexes]

    # -- members of the classic protocol ---------------------------------------------------------------------------

    def join_classic(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        caller: MemberClient,
        new_id: str,
        now_ms: int,
    ) -> Decision:
        """JoinGroup of a consumer group with members."""
        change = self.change(group, now_ms)
        try:
            replaced = group.static_member(request.group_instance_id)
            before, member, has_changed = consumer_group_classic.join(change, request, version, caller, new_id)
        except Refused as refused:
            member_id: str | None = request.member_id
            if refused.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                member_id = refused.message
            elif refused.error_code is ErrorCode.UNKNOWN_SERVER_ERROR:
                member_id = None
            return Decision(reply=join_error(refused.error_code, member_id or ""))
        if replaced is not None and self._is_last_of_the_new_protocol(group, replaced):
            if not has_changed:
                owned = consumer_group_classic.owned_by(request, self.topics)
                target = change.target_for(member, group.assignment_epoch)
                member = change.reconcile(member, target, owned, has_subscription_changed=False)
            self._downgrade(change, {}, member, must_share_anew=has_changed)
        else:
            member = consumer_group_classic.take_steps(change, member, request, has_changed=has_changed)
        assert before.member_id == member.member_id
        return Decision(records=tuple(change.records), reply=consumer_group_classic.joined(member))

    def _is_last_of_the_new_protocol(self, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
        others = [each for each in group.members.values() if each is not member]
        return (
            not member.uses_classic_protocol
            and all(each.uses_classic_protocol for each in others)
            and self._config.may_downgrade
            and len(group.members) <= self._config.group_max_size
        )


def _not_found(group_id: str, *, is_other: bool, kind: str = "Group") -> Refused:
    message = f"Group {group_id} is not a consumer group." if is_other else f"{kind} {group_id} not found."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
