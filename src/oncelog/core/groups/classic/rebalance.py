"""The two phases of a classic rebalance (all join, the leader's assignment is spread) and every timer of a group.

Methods change a group's soft state and put what follows into an `Outcome`: records to append, and answers to requests
that wait. No answer in an `Outcome` depends on a record of the same `Outcome`: what has to wait for the log stays
kept with the member and is answered in `written`, after `apply`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import NO_MEMBER_ID, Group, GroupState, Member, MetadataWrite, MetadataWriteKind
from oncelog.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, REJOIN_CHECK_INTERVAL_MS, GroupConfig
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog.wire.messages.sync_group import SyncGroupResponse


@dataclass(slots=True)
class Outcome:
    """A decision while it is being made."""

    records: list[Any] = field(default_factory=list)
    replies: list[tuple[int, Any]] = field(default_factory=list)

    def decision(self, reply: Any = None) -> Decision:
        """The finished decision; `reply` None means that the asker waits for its token."""
        return Decision(records=tuple(self.records), reply=reply, replies=tuple(self.replies))

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Ends the member's wait for a generation."""
        if member.join_token is not None:
            self.replies.append((member.join_token, response))
        member.join_token, member.is_awaiting_join = None, False

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> None:
        """Ends the member's wait for its assignment."""
        if member.sync_token is not None:
            self.replies.append((member.sync_token, response))
        member.sync_token, member.is_awaiting_sync = None, False


def join_error(error_code: ErrorCode, member_id: str = NO_MEMBER_ID) -> JoinGroupResponse:
    """A refused join. The protocol name is "" (not null) so that every version can carry it."""
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name="")


def join_result(group: Group, member: Member, *, with_members: bool) -> JoinGroupResponse:
    """The current generation as this member sees it; who assigns also sees the members."""
    members = []
    if with_members:
        members = [
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.subscription(group.protocol_name),
            )
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.leader_id or NO_MEMBER_ID,
        member_id=member.member_id,
        members=members,
    )


def sync_error(error_code: ErrorCode) -> SyncGroupResponse:
    """A refused sync."""
    return SyncGroupResponse(error_code=error_code)


def sync_result(group: Group, member: Member) -> SyncGroupResponse:
    """The member's assignment in the current generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


class Rebalance:
    """Moves groups through their states."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config

    # -- join phase ------------------------------------------------------------------------------------------------

    def park_join(self, member: Member, token: int, outcome: Outcome) -> None:
        """The member waits for the next generation; a join of its own that it has given up is answered."""
        if member.join_token is not None and member.join_token != token:
            outcome.replies.append((member.join_token, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)))
        member.join_token, member.is_awaiting_join = token, True
        # Who waits here need not heartbeat; only a member that does not know its id yet can be lost for ever.
        if not member.is_new:
            member.session_deadline_ms = None

    def add_member(self, group: Group, member: Member, token: int, now_ms: int, outcome: Outcome) -> None:
        """A new member joins and starts, or joins, a rebalance."""
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.has_new_member = True
        member.is_new = True
        member.session_deadline_ms = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        group.add(member)
        self.park_join(member, token, outcome)
        self.prepare_or_complete(group, now_ms, outcome)

    def prepare_or_complete(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Starts a rebalance where one may start; else ends the join phase if nobody is missing any more."""
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY):
            self.prepare(group, now_ms, outcome)
        else:
            self.complete_if_joined(group, now_ms, outcome)

    def prepare(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Begins a join phase; the first one of a group waits a little for more members."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_syncs(group, now_ms, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
        group.sync_deadline_ms = None
        group.pending_sync.clear()
        is_initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            group.has_new_member = False
            group.join_delay_ms = delay_ms
            group.join_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.join_deadline_ms = now_ms + delay_ms
            if delay_ms == 0:
                self._join_phase_is_due(group, now_ms, outcome)
            return
        group.join_remaining_ms = None
        if group.has_all_joined:
            self.complete(group, now_ms, outcome)
        else:
            group.join_deadline_ms = now_ms + group.rebalance_timeout_ms

    def complete_if_joined(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Ends the join phase early when everybody is here; the initial one always lasts its time."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_joined
        ):
            self.complete(group, now_ms, outcome)

    def complete(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Ends the join phase: dynamic members that did not come are out, the others get the new generation."""
        group.join_deadline_ms = group.join_remaining_ms = None
        for member in [each for each in group.members.values() if not each.is_awaiting_join and not each.is_static]:
            group.remove(member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Only static members are left and none has come: their sessions decide, so look again later.
            group.join_deadline_ms = now_ms + max(group.rebalance_timeout_ms, REJOIN_CHECK_INTERVAL_MS)
            return
        group.start_generation(now_ms)
        if group.state is GroupState.EMPTY:
            self._write(group, group.to_metadata({}), MetadataWriteKind.EMPTY_GROUP, outcome)
            return
        for member in group.members.values():
            self.touch(member, now_ms)
            member.is_new = False
            if member.is_awaiting_join:
                is_leader = member.member_id == group.leader_id
                outcome.answer_join(member, join_result(group, member, with_members=is_leader))
            group.pending_sync.add(member.member_id)
        group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms

    def _join_phase_is_due(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """KIP-134: while new members come in, the initial delay is extended, up to the rebalance timeout."""
        remaining_ms = group.join_remaining_ms
        if remaining_ms and group.has_new_member:
            group.has_new_member = False
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
            group.join_remaining_ms = max(remaining_ms - group.join_delay_ms, 0)
            group.join_delay_ms = delay_ms
            group.join_deadline_ms = now_ms + delay_ms
        else:
            self.complete(group, now_ms, outcome)

    # -- sync phase ------------------------------------------------------------------------------------------------

    def park_sync(self, group: Group, member: Member, token: int, outcome: Outcome) -> None:
        """The member waits for its assignment."""
        if member.sync_token is not None and member.sync_token != token:
            outcome.replies.append((member.sync_token, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync_token, member.is_awaiting_sync = token, True
        member.session_deadline_ms = None
        self.synced(group, member)

    def synced(self, group: Group, member: Member) -> None:
        """The member has come for its assignment of this generation."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            group.sync_deadline_ms = None

    def write_assignment(self, group: Group, assignments: dict[str, bytes], outcome: Outcome) -> None:
        """The leader has assigned: members hear of it when the log has it."""
        self._write(group, group.to_metadata(assignments), MetadataWriteKind.ASSIGNMENT, outcome)

    def write_static_member(
        self, group: Group, member: Member, leader_id_told: str | None, may_skip_assignment: bool, outcome: Outcome
    ) -> None:
        """KIP-345: the new id of a static member is logged before the member hears of it."""
        write = MetadataWrite(
            group.to_metadata(), MetadataWriteKind.STATIC_MEMBER, member.member_id, leader_id_told, may_skip_assignment
        )
        group.writes.append(write)
        outcome.records.append(write.record)

    def _write(self, group: Group, record: Any, kind: MetadataWriteKind, outcome: Outcome) -> None:
        group.writes.append(MetadataWrite(record, kind))
        outcome.records.append(record)

    def written(self, group: Group, write: MetadataWrite, now_ms: int, outcome: Outcome) -> None:
        """The record is committed: go on from where its write began, unless the group has moved on since."""
        if write.kind is MetadataWriteKind.ASSIGNMENT:
            is_current = write.record.generation_id == group.generation_id
            if not is_current or group.state is not GroupState.COMPLETING_REBALANCE:
                return
            group.transition_to(GroupState.STABLE, now_ms)
            assignments = {each.member_id: each.assignment for each in write.record.members}
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                if member.is_awaiting_sync:
                    outcome.answer_sync(member, sync_result(group, member))
                self.touch(member, now_ms)
        elif write.kind is MetadataWriteKind.STATIC_MEMBER:
            member_or_none = group.members.get(write.member_id)
            is_unchanged = group.state is GroupState.STABLE and write.record.generation_id == group.generation_id
            if member_or_none is not None and member_or_none.is_awaiting_join and is_unchanged:
                self._answer_static_member(group, member_or_none, write, now_ms, outcome)

    def _answer_static_member(
        self, group: Group, member: Member, write: MetadataWrite, now_ms: int, outcome: Outcome
    ) -> None:
        is_leader = member.member_id == group.leader_id
        response = join_result(group, member, with_members=is_leader and write.may_skip_assignment)
        if write.may_skip_assignment:
            # KIP-814: the leader may look at its members, but must not assign again.
            response.skip_assignment = is_leader
        else:
            # An old client that learns it leads would assign again: it is told the id it had before.
            response.leader = write.leader_id_told or NO_MEMBER_ID
        outcome.answer_join(member, response)
        self.touch(member, now_ms)

    def write_failed(self, group: Group, write: MetadataWrite, now_ms: int, outcome: Outcome) -> None:
        """The record is lost: nobody may act on it, so the members join again."""
        if write.kind is MetadataWriteKind.ASSIGNMENT:
            if group.state is GroupState.COMPLETING_REBALANCE and write.record.generation_id == group.generation_id:
                self._refuse_syncs(group, now_ms, ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome)
                self.prepare(group, now_ms, outcome)
        elif write.kind is MetadataWriteKind.STATIC_MEMBER:
            member = group.members.get(write.member_id)
            if member is not None and member.is_awaiting_join and group.state is GroupState.STABLE:
                outcome.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
                self.touch(member, now_ms)

    def _refuse_syncs(self, group: Group, now_ms: int, error_code: ErrorCode, outcome: Outcome) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.is_awaiting_sync:
                outcome.answer_sync(member, sync_error(error_code))
                self.touch(member, now_ms)

    # -- members that go -------------------------------------------------------------------------------------------

    def remove_member(self, group: Group, member_id: str, outcome: Outcome) -> None:
        """Forgets a member; a request of it that waits is told so, and a client that still lives joins again."""
        member = group.remove(member_id)
        if member is not None:
            if member.is_awaiting_join:
                outcome.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
            if member.is_awaiting_sync:
                outcome.answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))

    def rebalance_without(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """What follows once members are gone."""
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, now_ms, outcome)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_joined(group, now_ms, outcome)

    # -- time ------------------------------------------------------------------------------------------------------

    def touch(self, member: Member, now_ms: int) -> None:
        """The member was heard: its session starts anew."""
        member.session_deadline_ms = now_ms + member.session_timeout_ms

    def handle_timer(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Everything of this group that is due by now."""
        for member_id in [each for each, deadline_ms in group.pending_members.items() if deadline_ms <= now_ms]:
            group.remove(member_id)
            self.rebalance_without_pending(group, now_ms, outcome)
        silent = [
            each.member_id
            for each in group.members.values()
            if each.session_deadline_ms is not None and each.session_deadline_ms <= now_ms
        ]
        for member_id in silent:
            self.remove_member(group, member_id, outcome)
        if silent:
            self.rebalance_without(group, now_ms, outcome)
        if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
            self._join_phase_is_due(group, now_ms, outcome)
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            self._sync_phase_is_due(group, now_ms, outcome)

    def rebalance_without_pending(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """A given-out id is gone: only a join phase that waited for it goes on."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_joined(group, now_ms, outcome)

    def _sync_phase_is_due(self, group: Group, now_ms: int, outcome: Outcome) -> None:
        """Members that never asked for their assignment leave it unread: they are out (KAFKA-9935)."""
        group.sync_deadline_ms = None
        missing = list(group.pending_sync)
        for member_id in missing:
            self.remove_member(group, member_id, outcome)
        if missing:
            self.rebalance_without(group, now_ms, outcome)
