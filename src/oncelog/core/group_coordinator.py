"""The coordinator of all groups whose partition of `__consumer_offsets` is led here: one object per partition.

Requests give a `Decision`; its contract is in `decision`. Two things are particular to groups. JoinGroup and SyncGroup
may wait: such a decision has no reply, and a later one (of any request, or of `handle_timer`) answers the token. And
joins, sessions and rebalances are soft state that requests change at once; only `apply` and `apply_marker` change what
the log holds (offsets, the last generation). After an `apply` that somebody waits for, `next_timer()` is already due.
Use: `apply` and `apply_marker` over the whole log, `loaded(now_ms)`, then requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from oncelog.core.committed_offsets import CommittedOffsets
from oncelog.core.decision import NOTHING, Decision
from oncelog.core.group import NO_MEMBER_ID, Group, GroupState, Member, MetadataWrite
from oncelog.core.group_config import GroupConfig
from oncelog.core.group_membership import Join, Membership
from oncelog.core.group_offsets import OffsetRequests
from oncelog.core.group_queries import delete_groups, describe_groups, list_groups
from oncelog.core.group_rebalance import Outcome, Rebalance, join_error, sync_error
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records import consumer_offsets
from oncelog.wire.log_records.consumer_offsets import (
    ConsumerOffsetsRecord,
    GroupDeleted,
    GroupMetadata,
    OffsetCommit,
    OffsetDeleted,
)
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_commit import OffsetCommitRequest
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

AT_ONCE = 0
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5  # KIP-559: from here on both names must be there
EXPIRED_RECORDS_MAX = 1_000  # one decision is one batch


class GroupCoordinator:
    """Groups and offsets of one `__consumer_offsets` partition."""

    record_to_key_value = staticmethod(consumer_offsets.record_to_key_value)
    record_from_key_value = staticmethod(consumer_offsets.record_from_key_value)

    def __init__(self, partition_index: int, config: GroupConfig | None = None) -> None:
        self.partition_index = partition_index
        self.config = config or GroupConfig()
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()
        self._rebalance = Rebalance(self.config)
        self._membership = Membership(self.config, self._rebalance)
        self._offset_requests = OffsetRequests(self.config, self.offsets)
        self._alarms: list[tuple[int, str]] = []
        self._settled: list[tuple[Group, MetadataWrite, bool]] = []  # (.., is_written): what handle_timer goes on with
        self._expiry_ms: int | None = None
        self._to_sweep: list[str] = []  # groups that the retention sweep has still to look at

    # -- members ---------------------------------------------------------------------------------------------------

    def join_group(
        self,
        request: JoinGroupRequest,
        version: int,
        *,
        client_id: str | None,
        client_host: str,
        token: int,
        member_uuid: str,
        now_ms: int,
    ) -> Decision:
        """JoinGroup v0-9. `member_uuid` is fresh randomness; `token` is answered later when `reply` is None."""
        join = Join(request, version, client_id or "", client_host, token, member_uuid, now_ms)
        error_code = self._membership.check_join(join)
        if error_code != ErrorCode.NONE:
            return Decision(reply=join_error(error_code, request.member_id))
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                return Decision(reply=join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = Group(request.group_id)
            decision = self._membership.join(group, join)
            if group.members or group.pending_members:
                self.groups[request.group_id] = group
        else:
            decision = self._membership.join(group, join)
        self._schedule(group)
        return decision

    def sync_group(self, request: SyncGroupRequest, version: int, *, token: int, now_ms: int) -> Decision:
        """SyncGroup v0-5; `token` is answered later when `reply` is None."""
        if version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            return Decision(reply=sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not request.group_id:
            return Decision(reply=sync_error(ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(reply=sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        decision = self._membership.sync(group, request, token, now_ms)
        self._schedule(group)
        return decision

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Decision:
        """Heartbeat v0-4."""
        if not request.group_id:
            return Decision(reply=HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(reply=HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return self._membership.heartbeat(group, request, now_ms)

    def leave_group(self, request: LeaveGroupRequest, version: int, now_ms: int) -> Decision:
        """LeaveGroup v0-5."""
        group = self.groups.get(request.group_id)
        decision = self._membership.leave(group, request, version, now_ms)
        if group is not None:
            self._schedule(group)
        return decision

    def cancel(self, token: int, now_ms: int) -> Decision:
        """The connection of a waiting request is gone: nobody is there to be answered.

        A new member that never got its id cannot come back as that member, so it is forgotten; others keep their place.
        """
        outcome = Outcome()
        for group in self.groups.values():
            for member in group.members.values():
                if member.sync_token == token:
                    member.sync_token = None
                    return NOTHING
                if member.join_token == token:
                    member.join_token = None
                    self._forget_if_new(group, member, now_ms, outcome)
                    return outcome.decision()
        return NOTHING

    def _forget_if_new(self, group: Group, member: Member, now_ms: int, outcome: Outcome) -> None:
        if member.is_new and not member.is_static:
            self._rebalance.remove_member(group, member.member_id, outcome)
            self._rebalance.rebalance_without(group, now_ms, outcome)
            self._schedule(group)

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit_offsets(self, request: OffsetCommitRequest, version: int, now_ms: int) -> Decision:
        """OffsetCommit v2-10; topics must have their names, also in version 10."""
        group = self.groups.get(request.group_id)
        decision = self._offset_requests.commit(group, request, version, now_ms)
        if group is not None and decision.records and request.member_id in group.members:
            self._membership.heard(group, request.member_id, now_ms)
        return decision

    def txn_commit_offsets(self, request: TxnOffsetCommitRequest, now_ms: int) -> Decision:
        """TxnOffsetCommit v0-5, after the transaction was verified. Its records form one transactional batch of the
        request's producer, without sequence numbers."""
        return self._offset_requests.txn_commit(self.groups.get(request.group_id), request, now_ms)

    def fetch_offsets(self, request: OffsetFetchRequest, version: int) -> Decision:
        """OffsetFetch v1-10; topics must have their names, also in version 10."""
        return Decision(reply=self._offset_requests.fetch(request, version))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Decision:
        """OffsetDelete v0."""
        return self._offset_requests.delete(self.groups.get(request.group_id), request)

    def partitions_deleted(self, partitions: Iterable[TopicPartition]) -> Decision:
        """Topics are gone: so are all offsets of them."""
        gone = set(partitions)
        records = [
            OffsetDeleted(group_id, each.topic, each.partition)
            for group_id in self.groups
            for each in sorted(self.offsets.all_partitions(group_id) & gone)
        ]
        return Decision(records=tuple(records))

    # -- queries ---------------------------------------------------------------------------------------------------

    def describe_groups(self, request: DescribeGroupsRequest, version: int) -> Decision:
        """DescribeGroups v0-6 for groups of this partition."""
        return Decision(reply=describe_groups(self.groups, request, version))

    def list_groups(self, request: ListGroupsRequest) -> Decision:
        """ListGroups v0-5: the groups of this partition."""
        return Decision(reply=list_groups(self.groups.values(), request))

    def delete_groups(self, request: DeleteGroupsRequest) -> Decision:
        """DeleteGroups v0-2 for groups of this partition."""
        return delete_groups(self.groups, self._offset_requests, request)

    # -- the log ---------------------------------------------------------------------------------------------------

    def appended(self, records: Sequence[ConsumerOffsetsRecord]) -> None:
        """A decision's records are in the log, not yet committed there. In the same step as the append."""
        for record in records:
            match record:
                case OffsetCommit():
                    self._group(record.group_id)
                    self.offsets.appended(record)
                case GroupDeleted():
                    # Until the deletion is committed the group accepts nothing: clients try again.
                    group = self._group(record.group_id)
                    if group.state is GroupState.EMPTY:
                        group.state = GroupState.DEAD
                case _:
                    pass

    def failed(self, records: Sequence[ConsumerOffsetsRecord]) -> None:
        """The append, or what should have made it durable, failed: nothing of it happened."""
        for record in records:
            match record:
                case OffsetCommit() | OffsetDeleted():
                    self.offsets.settled(record)
                case GroupDeleted():
                    group = self._group(record.group_id)
                    if group.state is GroupState.DEAD:
                        group.state = GroupState.EMPTY
                case GroupMetadata():
                    self._settle(record, is_written=False)

    def apply(self, record: ConsumerOffsetsRecord) -> None:
        """One committed record, in the log's order: live and in recovery alike."""
        match record:
            case OffsetCommit() | OffsetDeleted():
                self._group(record.group_id)
                self.offsets.apply(record)
            case GroupMetadata():
                self._group(record.group_id).metadata = record
                self._settle(record, is_written=True)
            case GroupDeleted():
                self._delete(record.group_id)

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """A committed transaction marker of this partition: its offsets become visible, or are gone."""
        self.offsets.apply_marker(producer_id, producer_epoch, commit=commit)

    def loaded(self, now_ms: int) -> None:
        """The whole log has been applied: members get a fresh session, groups nothing is known of are dropped."""
        for group_id in [each for each, group in self.groups.items() if self._is_bare(group)]:
            del self.groups[group_id]
        for group in self.groups.values():
            group.restore(now_ms)
            self._schedule(group)
        self._expiry_ms = now_ms + self.config.offsets_retention_check_interval_ms

    def resigned(self, error_code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Decision:
        """The partition went offline: everybody who waits is sent away. Then this object is of no more use."""
        outcome = Outcome()
        for group in self.groups.values():
            for member in group.members.values():
                if member.is_awaiting_join:
                    outcome.answer_join(member, join_error(error_code, member.member_id))
                if member.is_awaiting_sync:
                    outcome.answer_sync(member, sync_error(error_code))
        return outcome.decision()

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def _is_bare(self, group: Group) -> bool:
        return group.metadata is None and not self.offsets.has_any(group.group_id)

    def _settle(self, record: GroupMetadata, *, is_written: bool) -> None:
        group = self._group(record.group_id)
        if group.writes and group.writes[0].record is record:
            self._settled.append((group, group.writes.popleft(), is_written))

    def _delete(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and not self.offsets.has_any(group_id):
            del self.groups[group_id]
        elif group is not None:
            # Offsets without a tombstone of their own keep the group as one that only stores offsets.
            self.groups[group_id] = Group(group_id)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """When `handle_timer` is wanted, in ms; a time in the past means at once, None never."""
        if self._settled or self._to_sweep:
            return AT_ONCE
        alarm_ms = self._alarms[0][0] if self._alarms else None
        if alarm_ms is None or self._expiry_ms is None:
            return alarm_ms if self._expiry_ms is None else self._expiry_ms
        return min(alarm_ms, self._expiry_ms)

    def handle_timer(self, now_ms: int) -> Decision:
        """Goes on with what the log has settled, then with all that is due."""
        outcome = Outcome()
        settled, self._settled = self._settled, []
        for group, write, is_written in settled:
            if is_written:
                self._rebalance.written(group, write, now_ms, outcome)
            else:
                self._rebalance.write_failed(group, write, now_ms, outcome)
            self._schedule(group)
        while self._alarms and self._alarms[0][0] <= now_ms:
            alarm_ms, group_id = heappop(self._alarms)
            group_or_none = self.groups.get(group_id)
            if group_or_none is not None and group_or_none.scheduled_ms == alarm_ms:
                group_or_none.scheduled_ms = None
                self._rebalance.handle_timer(group_or_none, now_ms, outcome)
                self._schedule(group_or_none)
        if self._expiry_ms is not None and self._expiry_ms <= now_ms:
            self._expiry_ms = now_ms + self.config.offsets_retention_check_interval_ms
            self._to_sweep = list(self.groups)
        self._sweep(now_ms, outcome)
        return outcome.decision()

    def _schedule(self, group: Group) -> None:
        """Sets the group's alarm unless one is set that rings early enough; heartbeats only move deadlines away."""
        deadline_ms = group.next_deadline()
        if deadline_ms is not None and (group.scheduled_ms is None or deadline_ms < group.scheduled_ms):
            group.scheduled_ms = deadline_ms
            heappush(self._alarms, (deadline_ms, group.group_id))

    def _sweep(self, now_ms: int, outcome: Outcome) -> None:
        """Deletes offsets whose retention is over, and groups that have neither members nor offsets."""
        while self._to_sweep and len(outcome.records) < EXPIRED_RECORDS_MAX:
            group = self.groups.get(self._to_sweep.pop())
            if group is None or group.state is GroupState.DEAD:
                continue
            expired = self._offset_requests.expired(group, now_ms)
            outcome.records += expired
            if group.state is GroupState.EMPTY and not group.pending_members:
                remaining = self.offsets.all_partitions(group.group_id)
                remaining -= {TopicPartition(each.topic, each.partition) for each in expired}
                if not remaining:
                    outcome.records.append(GroupDeleted(group.group_id))
