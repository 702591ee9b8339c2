"""What a classic group answers to JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The checks stand in Apache Kafka's order, because clients act on the first error. A reply of None means that the request
waits: its token is answered by a later decision. KIP-394 (the member id is given before the join), KIP-345 (static
members) and KIP-814 (a static leader skips the assignment) are here; the phases themselves are in `group_rebalance`.
"""

from __future__ import annotations

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import NO_MEMBER_ID, Group, GroupState, Member
from oncelog.core.groups.classic.rebalance import Outcome, Rebalance, join_error, join_result, sync_error, sync_result
from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from oncelog.wire.messages.sync_group import SyncGroupRequest

FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9
FIRST_VERSION_WITH_BATCHED_LEAVE = 3


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request with what the shell knows beside it."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    token: int
    member_uuid: str  # the random part of a member id, should one be needed
    now_ms: int

    @property
    def protocols(self) -> tuple[tuple[str, bytes], ...]:
        """The member's protocols, most preferred first."""
        return tuple((each.name, bytes(each.metadata)) for each in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none: the session timeout stands for it."""
        timeout_ms = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if self.version == 0 or timeout_ms < 0 else timeout_ms

    @property
    def new_member_id(self) -> str:
        """The id for a member that has none."""
        return f"{self.request.group_instance_id or self.client_id}-{self.member_uuid}"

    def member(self, member_id: str) -> Member:
        """The member this request makes."""
        return Member(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )


class Membership:
    """The four requests by which members come, stay and go."""

    def __init__(self, config: GroupConfig, rebalance: Rebalance) -> None:
        self._config = config
        self._rebalance = rebalance

    # -- JoinGroup -------------------------------------------------------------------------------------------------

    def check_join(self, join: Join) -> ErrorCode:
        """What is refused before any group is looked at."""
        if not join.request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        timeout_ms = join.request.session_timeout_ms
        if not self._config.group_min_session_timeout_ms <= timeout_ms <= self._config.group_max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def join(self, group: Group, join: Join) -> Decision:
        """A member, new or known, wants to be in the next generation."""
        request = join.request
        if not self._has_room_for(group, request.member_id):
            group.remove(request.member_id)
            return Decision(reply=join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        if group.state is GroupState.DEAD:
            return Decision(reply=join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
        if not group.may_join_with(request.protocol_type, (each.name for each in request.protocols)):
            return Decision(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        if request.member_id == NO_MEMBER_ID:
            return self._join_new(group, join)
        # Only dynamic members are given ids before they join; with an instance id this is not their request.
        if request.member_id in group.pending_members and request.group_instance_id is None:
            return self._add(group, join, request.member_id)
        error_code = group.check_member(request.member_id, request.group_instance_id)
        if error_code != ErrorCode.NONE:
            return Decision(reply=join_error(error_code, request.member_id))
        return self._join_known(group, group.members[request.member_id], join)

    def _has_room_for(self, group: Group, member_id: str) -> bool:
        size_max = self._config.group_max_size
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            if member is not None and member.is_awaiting_join:
                return True
            return sum(each.is_awaiting_join for each in group.members.values()) < size_max
        if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < size_max
        return True

    def _join_new(self, group: Group, join: Join) -> Decision:
        instance_id = join.request.group_instance_id
        if instance_id is not None:
            known_id = group.static_members.get(instance_id)
            if known_id is not None:
                return self._replace_static(group, group.members[known_id], join)
        elif join.version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
            # KIP-394: a client that loses this answer leaves a bare id behind, not a member that all wait for.
            group.pending_members[join.new_member_id] = join.now_ms + join.request.session_timeout_ms
            return Decision(reply=join_error(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
        return self._add(group, join, join.new_member_id)

    def _add(self, group: Group, join: Join, member_id: str) -> Decision:
        outcome = Outcome()
        if not group.members:
            group.protocol_type = join.request.protocol_type
        self._rebalance.add_member(group, join.member(member_id), join.token, join.now_ms, outcome)
        return outcome.decision()

    def _join_known(self, group: Group, member: Member, join: Join) -> Decision:
        if group.state is GroupState.EMPTY:
            return Decision(reply=join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        is_leader = group.leader_id == member.member_id
        is_same = member.protocols == join.protocols
        # Who lost the answer of a join that is over gets it again. A leader's join in a stable group is its way to ask
        # for a new assignment (its topics' partitions changed).
        if is_same and group.state is GroupState.COMPLETING_REBALANCE:
            return Decision(reply=join_result(group, member, with_members=is_leader))
        if is_same and group.state is GroupState.STABLE and not is_leader:
            return Decision(reply=join_result(group, member, with_members=False))
        outcome = Outcome()
        self._update(member, join, outcome)
        self._rebalance.prepare_or_complete(group, join.now_ms, outcome)
        return outcome.decision()

    def _update(self, member: Member, join: Join, outcome: Outcome) -> None:
        member.protocols = join.protocols
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.request.session_timeout_ms
        self._rebalance.park_join(member, join.token, outcome)

    def _replace_static(self, group: Group, member: Member, join: Join) -> Decision:
        outcome = Outcome()
        old_id, old_leader_id, owes_a_join = member.member_id, group.leader_id, group.gives_back(member)
        outcome.answer_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        outcome.answer_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        group.rename_static_member(member, join.new_member_id)
        member.client_id, member.client_host = join.client_id, join.client_host
        self._update(member, join, outcome)
        if group.state is GroupState.STABLE:
            if group.select_protocol() == group.protocol_name and not owes_a_join:
                may_skip = join.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT
                self._rebalance.write_static_member(group, member, old_leader_id, may_skip, outcome)
            else:
                self._rebalance.prepare(group, join.now_ms, outcome)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            # The leader assigns to ids it was told; the old id among them is no member any more.
            self._rebalance.prepare(group, join.now_ms, outcome)
        else:
            self._rebalance.complete_if_joined(group, join.now_ms, outcome)
        return outcome.decision()

    # -- SyncGroup -------------------------------------------------------------------------------------------------

    def sync(self, group: Group, request: SyncGroupRequest, token: int, now_ms: int) -> Decision:
        """A member asks for its assignment; the leader brings all of them."""
        error_code = self._check_sync(group, request)
        if error_code != ErrorCode.NONE:
            return Decision(reply=sync_error(error_code))
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            self._rebalance.synced(group, member)
            self._rebalance.touch(member, now_ms)
            return Decision(reply=sync_result(group, member))
        outcome = Outcome()
        self._rebalance.park_sync(group, member, token, outcome)
        if member.member_id == group.leader_id:
            assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
            self._rebalance.write_assignment(group, assignments, outcome)
        return outcome.decision()

    @staticmethod
    def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error_code = group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
        if error_code != ErrorCode.NONE:
            return error_code
        # KIP-559: a client that names type and protocol must mean the group's.
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, group.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.UNKNOWN_MEMBER_ID if group.state is GroupState.EMPTY else ErrorCode.NONE

    # -- Heartbeat -------------------------------------------------------------------------------------------------

    def heartbeat(self, group: Group, request: HeartbeatRequest, now_ms: int) -> Decision:
        """A member is alive; during a join phase it is told to join."""
        if group.state is GroupState.DEAD:
            return Decision(reply=HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        error_code = group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
        if error_code == ErrorCode.NONE:
            self.heard(group, request.member_id, now_ms)
            if group.state is GroupState.PREPARING_REBALANCE:
                error_code = ErrorCode.REBALANCE_IN_PROGRESS
        return Decision(reply=HeartbeatResponse(error_code=error_code))

    def heard(self, group: Group, member_id: str, now_ms: int) -> None:
        """Prolongs the session of a member that is not waiting for an answer."""
        member = group.members[member_id]
        if not member.is_awaiting_join and not member.is_awaiting_sync:
            self._rebalance.touch(member, now_ms)

    # -- LeaveGroup ------------------------------------------------------------------------------------------------

    def leave(self, group: Group | None, request: LeaveGroupRequest, version: int, now_ms: int) -> Decision:
        """Members go, by id or (an administrator's way, KIP-345) by instance id alone."""
        if not request.group_id:
            return Decision(reply=LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if group is not None and group.state is GroupState.DEAD:
            return Decision(reply=LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if version < FIRST_VERSION_WITH_BATCHED_LEAVE:
            identities = [MemberIdentity(member_id=request.member_id)]
        else:
            identities = list(request.members)
        outcome = Outcome()
        members_before = 0 if group is None else len(group.members)
        error_codes = [self._leave_one(group, each, outcome) for each in identities]
        if group is not None and len(group.members) < members_before:
            self._rebalance.rebalance_without(group, now_ms, outcome)
        elif group is not None and ErrorCode.NONE in error_codes:
            self._rebalance.rebalance_without_pending(group, now_ms, outcome)
        if version < FIRST_VERSION_WITH_BATCHED_LEAVE:
            return outcome.decision(LeaveGroupResponse(error_code=error_codes[0]))
        members = [
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_codes[index]
            )
            for index, each in enumerate(identities)
        ]
        return outcome.decision(LeaveGroupResponse(members=members))

    def _leave_one(self, group: Group | None, identity: MemberIdentity, outcome: Outcome) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == NO_MEMBER_ID:
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id in group.pending_members:
            group.remove(member_id)
            return ErrorCode.NONE
        else:
            error_code = group.check_member(member_id, instance_id)
            if error_code != ErrorCode.NONE:
                return error_code
        self._rebalance.remove_member(group, member_id, outcome)
        return ErrorCode.NONE
