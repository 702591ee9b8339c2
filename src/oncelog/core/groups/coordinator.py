"""The coordinator of all groups whose partition of `__consumer_offsets` is led here: one object per partition.

Requests give a `Decision`; its contract is in `decision`. Two things are particular to groups. JoinGroup and SyncGroup
may wait: such a decision has no reply, and a later one (of any request, or of `handle_timer`) answers the token. And
joins, sessions and rebalances are soft state that requests change at once; only `apply` and `apply_marker` change what
the log holds (offsets, the last generation). After an `apply` that somebody waits for, `next_timer()` is already due.
Consumer groups (KIP-848) live in `consumer_groups`, streams groups (KIP-1071) in `streams_groups` and share groups (KIP-932)
in `share_groups`, beside the classic ones: a group is in one of the four.
Use: `apply` and `apply_marker` over the whole log, `loaded(now_ms)`, then requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from oncelog.core.decision import NOTHING, Decision
from oncelog.core.groups.alarms import Alarms
from oncelog.core.groups.classic.group import NO_MEMBER_ID, Group, GroupState, Member, MetadataWrite, WallClock
from oncelog.core.groups.classic.membership import Join, Membership
from oncelog.core.groups.classic.rebalance import Outcome, Rebalance, join_error, sync_error
from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer import classic_members as consumer_group_classic
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics
from oncelog.core.groups.consumer.groups import ConsumerGroups, Overrides
from oncelog.core.groups.consumer.heartbeat import MemberClient
from oncelog.core.groups.consumer.leave import leave_consumer_group
from oncelog.core.groups.offsets import OffsetRequests
from oncelog.core.groups.queries import GroupQueries
from oncelog.core.groups.refused import Refused
from oncelog.core.groups.share.group import ShareGroup
from oncelog.core.groups.share.groups import Caller, ShareGroups
from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.core.groups.streams.groups import StreamsGroups
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
from oncelog.wire.log_records.share_groups import SHARE_GROUP_RECORDS, Partitions
from oncelog.wire.log_records.streams_groups import STREAMS_GROUP_RECORDS
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_commit import OffsetCommitRequest
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest
from oncelog.wire.messages.share_group_describe import ShareGroupDescribeRequest
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from oncelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

AT_ONCE = 0
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5  # KIP-559: from here on both names must be there
EXPIRED_RECORDS_MAX = 1_000  # one decision is one batch


class GroupCoordinator:
    """Groups and offsets of one `__consumer_offsets` partition."""

    record_to_key_value = staticmethod(consumer_offsets.record_to_key_value)
    record_from_key_value = staticmethod(consumer_offsets.record_from_key_value)

    def __init__(
        self,
        partition_index: int,
        config: GroupConfig | None = None,
        *,
        topics: Topics | None = None,
        overrides: Overrides = lambda _: {},
    ) -> None:
        self.partition_index = partition_index
        self.config = config or GroupConfig()
        self.clock = WallClock()
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()
        self.consumer_groups = ConsumerGroups(
            self.config,
            self.groups,
            self.offsets,
            topics=topics,
            clock=self.clock,
            overrides=overrides,
            is_other=lambda name: name in self.streams_groups.by_id or name in self.share_groups.by_id,
        )
        self.streams_groups = StreamsGroups(
            self.config,
            self.groups,
            self.offsets,
            topics=self.consumer_groups.topics,
            clock=self.clock,
            overrides=overrides,
            is_other=lambda name: name in self.consumer_groups.by_id or name in self.share_groups.by_id,
        )
        self.share_groups = ShareGroups(
            self.config,
            self.consumer_groups.topics,
            other_kinds=lambda name: name in self.groups or self.modern(name) is not None,
            clock=self.clock,
            overrides=overrides,
        )
        self._rebalance = Rebalance(self.config)
        self._membership = Membership(self.config, self._rebalance)
        self._offset_requests = OffsetRequests(
            self.config, self.offsets, self.modern, self.consumer_groups.topics, self.share_groups.by_id.__contains__
        )
        self._queries = GroupQueries(self.config, self.groups, *self._tables, self._offset_requests)
        self._alarms = Alarms(lambda: [*self.groups.values(), *self._all_timed()])
        self._ended: list[tuple[Group, MetadataWrite, bool]] = []  # (.., is_written): what handle_timer goes on with
        self._expiry_ms: int | None = None
        self._to_sweep: list[str] = []  # groups that the retention sweep has still to look at

    def __len__(self) -> int:
        return len(self.groups) + sum(len(each.by_id) for each in self._tables)

    @property
    def _tables(self) -> tuple[ConsumerGroups, StreamsGroups, ShareGroups]:
        return self.consumer_groups, self.streams_groups, self.share_groups

    def modern(self, group_id: str) -> ConsumerGroup | StreamsGroup | None:
        """The group of this name, if the broker shares out partitions or tasks for its members."""
        return self.consumer_groups.by_id.get(group_id) or self.streams_groups.by_id.get(group_id)

    def _all_timed(self) -> list[ConsumerGroup | StreamsGroup | ShareGroup]:
        return [group for table in self._tables for group in table.by_id.values()]

    def knows_group(self, group_id: str) -> bool:
        """Whether there is a group of this name, of whatever kind."""
        return group_id in self.groups or any(group_id in each.by_id for each in self._tables)

    @property
    def is_ahead(self) -> bool:
        """Whether answers rest on changes that the log may still lose."""
        return any(each.is_ahead for each in self._tables)

    @property
    def member_count(self) -> int:
        """Members of all groups, and ids that were given to those who are to come back with them."""
        classic = sum(len(group.members) + len(group.pending_members) for group in self.groups.values())
        return classic + sum(len(group.members) for group in self._all_timed())

    def knows_member(self, group_id: str, member_id: str, instance_id: str | None) -> bool:
        """Whether who joins so is, or takes the place of, a member."""
        group = self.modern(group_id) or self.groups.get(group_id) or self.share_groups.by_id.get(group_id)
        if group is None:
            return False
        if member_id in group.members or instance_id is None:
            return member_id in group.members
        return not isinstance(group, StreamsGroup) and instance_id in group.static_members

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
        if request.group_id in self.share_groups.by_id:
            return Decision(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        consumer = self.consumer_groups.by_id.get(request.group_id)
        if consumer is not None and consumer.members:
            caller = MemberClient(client_id or "", client_host)
            decision = self.consumer_groups.join_classic(consumer, request, version, caller, member_uuid, now_ms)
            self._schedule(consumer)
            return decision
        streams = self.streams_groups.by_id.get(request.group_id)
        if streams is not None and streams.members:
            return Decision(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID))
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                return Decision(reply=join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = Group(request.group_id, clock=self.clock)
            decision = self._membership.join(group, join)
            if group.members or group.pending_members:
                decision = self._begin_classic(group, decision)
        else:
            decision = self._membership.join(group, join)
        self._schedule(group)
        return decision

    def _begin_classic(self, group: Group, decision: Decision) -> Decision:
        """The group is there from now on; an empty group of its name that is of another kind is not."""
        self.groups[group.group_id] = group
        empty = self.modern(group.group_id)
        if empty is None:
            return decision
        self.consumer_groups.by_id.pop(group.group_id, None)
        self.streams_groups.by_id.pop(group.group_id, None)
        return replace(decision, records=(*empty.tombstones(), *decision.records))

    def sync_group(self, request: SyncGroupRequest, version: int, *, token: int, now_ms: int) -> Decision:
        """SyncGroup v0-5; `token` is answered later when `reply` is None."""
        if version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            return Decision(reply=sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not request.group_id:
            return Decision(reply=sync_error(ErrorCode.INVALID_GROUP_ID))
        consumer = self.consumer_groups.by_id.get(request.group_id)
        if consumer is not None:
            try:
                reply = consumer_group_classic.sync(self.consumer_groups.change(consumer, now_ms), request)
            except Refused as refused:
                reply = sync_error(refused.error_code)
            self._schedule(consumer)
            return Decision(reply=reply)
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
        consumer = self.consumer_groups.by_id.get(request.group_id)
        if consumer is not None:
            try:
                error_code = consumer_group_classic.heartbeat(self.consumer_groups.change(consumer, now_ms), request)
            except Refused as refused:
                error_code = refused.error_code
            self._schedule(consumer)
            return Decision(reply=HeartbeatResponse(error_code=error_code))
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(reply=HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return self._membership.heartbeat(group, request, now_ms)

    def leave_group(self, request: LeaveGroupRequest, version: int, now_ms: int) -> Decision:
        """LeaveGroup v0-5."""
        consumer = self.consumer_groups.by_id.get(request.group_id)
        if consumer is not None:
            return leave_consumer_group(self.consumer_groups, consumer, request, version, now_ms)
        group = self.groups.get(request.group_id)
        decision = self._membership.leave(group, request, version, now_ms)
        if group is not None:
            self._schedule(group)
        return decision

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        *,
        client_id: str | None,
        client_host: str,
        member_uuid: str,
        now_ms: int,
    ) -> Decision:
        """ConsumerGroupHeartbeat v0-1. `member_uuid` is the id of a member that has none (v0)."""
        caller = MemberClient(client_id or "", client_host)
        decision = self.consumer_groups.heartbeat(request, version, caller, member_uuid, now_ms)
        group = self.consumer_groups.by_id.get(request.group_id)
        if group is not None:
            self._schedule(group)
        return decision

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, *, client_id: str | None, client_host: str, now_ms: int
    ) -> Decision:
        """StreamsGroupHeartbeat v0; the reply is a `StreamsHeartbeatResult`."""
        decision = self.streams_groups.heartbeat(request, MemberClient(client_id or "", client_host), now_ms)
        group = self.streams_groups.by_id.get(request.group_id)
        if group is not None:
            self._schedule(group)
        return decision

    def share_group_heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        *,
        client_id: str | None,
        client_host: str,
        begun: Partitions,
        now_ms: int,
    ) -> Decision:
        """ShareGroupHeartbeat v1. `begun` are the partitions of `share_groups.to_begin` whose state is stored now."""
        decision = self.share_groups.heartbeat(request, Caller(client_id or "", client_host), begun, now_ms)
        group = self.share_groups.by_id.get(request.group_id)
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
        now_ms += self.clock.offset_ms
        group = self.groups.get(request.group_id)
        decision = self._offset_requests.commit(group, request, version, now_ms)
        if group is not None and decision.records and request.member_id in group.members:
            self._membership.heard(group, request.member_id, now_ms - self.clock.offset_ms)
        return decision

    def txn_commit_offsets(self, request: TxnOffsetCommitRequest, now_ms: int) -> Decision:
        """TxnOffsetCommit v0-5, after the transaction was verified. Its records form one transactional batch of the
        request's producer, without sequence numbers."""
        return self._offset_requests.txn_commit(
            self.groups.get(request.group_id), request, now_ms + self.clock.offset_ms
        )

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
            for group_id in (*self.groups, *self.consumer_groups.by_id, *self.streams_groups.by_id)
            for each in sorted(self.offsets.all_partitions(group_id) & gone)
        ]
        return Decision(records=tuple(records))

    # -- queries ---------------------------------------------------------------------------------------------------

    def describe_groups(self, request: DescribeGroupsRequest, version: int) -> Decision:
        """DescribeGroups v0-6 for groups of this partition."""
        return Decision(reply=self._queries.describe(request, version))

    def consumer_group_describe(self, request: ConsumerGroupDescribeRequest) -> Decision:
        """ConsumerGroupDescribe v0-1 for groups of this partition."""
        return Decision(reply=self._queries.describe_consumer(request))

    def streams_group_describe(self, request: StreamsGroupDescribeRequest) -> Decision:
        """StreamsGroupDescribe v0 for groups of this partition."""
        return Decision(reply=self._queries.describe_streams(request))

    def share_group_describe(self, request: ShareGroupDescribeRequest) -> Decision:
        """ShareGroupDescribe v1 for groups of this partition."""
        return Decision(reply=self._queries.describe_share(request))

    def list_groups(self, request: ListGroupsRequest) -> Decision:
        """ListGroups v0-5: the groups of this partition."""
        return Decision(reply=self._queries.list(request))

    def delete_groups(self, request: DeleteGroupsRequest) -> Decision:
        """DeleteGroups v0-2 for groups of this partition."""
        return self._queries.delete(request)

    # -- the log ---------------------------------------------------------------------------------------------------

    def appended(self, records: Sequence[ConsumerOffsetsRecord]) -> None:
        """A decision's records are in the log, not yet committed there. In the same step as the append."""
        changed: set[tuple[Any, str]] = set()  # groups with a table of their own
        for record in records:
            match record:
                case OffsetCommit():
                    self._keep_group(record.group_id)
                    self.offsets.appended(record)
                case GroupDeleted():
                    # Until the deletion is committed the group accepts nothing: clients try again.
                    group = self.groups.get(record.group_id)
                    if group is not None and group.state is GroupState.EMPTY:
                        group.state = GroupState.DEAD
                case GroupMetadata() | OffsetDeleted():
                    pass
                case _:
                    table = self._kind_of(record)
                    table.appended(record)
                    changed.add((table, record.group_id))
        for table, group_id in changed:
            if group_id in table.by_id:
                self._schedule(table.by_id[group_id])

    def failed(self, records: Sequence[ConsumerOffsetsRecord]) -> None:
        """The append, or what should have made it durable, failed: nothing of it happened."""
        for record in records:
            match record:
                case OffsetCommit() | OffsetDeleted():
                    self.offsets.resolved(record)
                case GroupDeleted():
                    group = self.groups.get(record.group_id)
                    if group is not None and group.state is GroupState.DEAD:
                        group.state = GroupState.EMPTY
                case GroupMetadata():
                    self._end_write(record, is_written=False)
                case _:
                    self._kind_of(record).failed(record)

    def apply(self, record: ConsumerOffsetsRecord) -> None:
        """One committed record, in the log's order: live and in recovery alike."""
        match record:
            case OffsetCommit() | OffsetDeleted():
                self._keep_group(record.group_id)
                self.offsets.apply(record)
            case GroupMetadata():
                # Where a group of another kind has taken its place since, the record is about nothing any more.
                if self.modern(record.group_id) is None:
                    self._group(record.group_id).metadata = record
                    self._end_write(record, is_written=True)
            case GroupDeleted():
                self._delete(record.group_id)
            case _:
                self._kind_of(record).apply(record)

    def _kind_of(self, record: ConsumerOffsetsRecord) -> Any:
        if isinstance(record, STREAMS_GROUP_RECORDS):
            return self.streams_groups
        return self.share_groups if isinstance(record, SHARE_GROUP_RECORDS) else self.consumer_groups

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
        self.consumer_groups.loaded(now_ms)
        self.streams_groups.loaded(now_ms)
        self.share_groups.loaded(now_ms)
        for timed in self._all_timed():
            self._schedule(timed)
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
            group = self.groups[group_id] = Group(group_id, clock=self.clock)
        return group

    def _keep_group(self, group_id: str) -> None:
        """Offsets need a group: where there is none, one that only keeps offsets."""
        if self.modern(group_id) is None:
            self._group(group_id)

    def _is_bare(self, group: Group) -> bool:
        return group.metadata is None and not self.offsets.has_any(group.group_id)

    def _end_write(self, record: GroupMetadata, *, is_written: bool) -> None:
        group = self.groups.get(record.group_id)
        if group is not None and group.writes and group.writes[0].record is record:
            self._ended.append((group, group.writes.popleft(), is_written))

    def _delete(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and not self.offsets.has_any(group_id):
            del self.groups[group_id]
        elif group is not None:
            # Offsets without a tombstone of their own keep the group as one that only stores offsets.
            self.groups[group_id] = Group(group_id, clock=self.clock)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """When `handle_timer` is wanted, in ms; a time in the past means at once, None never."""
        consumer_groups = self.consumer_groups
        if self._ended or self._to_sweep or consumer_groups.to_rebalance or consumer_groups.waiting_for_regexes():
            return AT_ONCE
        alarm_ms = self._alarms.next_ms
        if alarm_ms is None or self._expiry_ms is None:
            return alarm_ms if self._expiry_ms is None else self._expiry_ms
        return min(alarm_ms, self._expiry_ms)

    def handle_timer(self, now_ms: int) -> Decision:
        """Goes on with what the log has written or lost, then with all that is due."""
        outcome = Outcome()
        ended, self._ended = self._ended, []
        for group, write, is_written in ended:
            if is_written:
                self._rebalance.written(group, write, now_ms, outcome)
            else:
                self._rebalance.write_failed(group, write, now_ms, outcome)
            self._schedule(group)
        downgraded, self.consumer_groups.to_rebalance = self.consumer_groups.to_rebalance, []
        for group in downgraded:
            if self.groups.get(group.group_id) is group:  # members may have joined since, or all have left
                self._rebalance.prepare_or_complete(group, now_ms, outcome)
                self._schedule(group)
        outcome.records += self.consumer_groups.resolved_regexes(now_ms)
        self._ring_alarms(now_ms, outcome)
        if self._expiry_ms is not None and self._expiry_ms <= now_ms:
            self._expiry_ms = now_ms + self.config.offsets_retention_check_interval_ms
            self._to_sweep = [*self.groups, *self.consumer_groups.by_id, *self.streams_groups.by_id]
        self._sweep(now_ms, outcome)
        return outcome.decision()

    def _ring_alarms(self, now_ms: int, outcome: Outcome) -> None:
        # What is due again at once waits for the next call: no group may hold up the others.
        for alarm_ms, group_id in self._alarms.take_due(now_ms):
            group = self.groups.get(group_id)
            if group is not None and self._alarms.rings_for(group, alarm_ms):
                self._rebalance.handle_timer(group, now_ms, outcome)
                self._schedule(group)
            for table in self._tables:
                timed: Any = table.by_id.get(group_id)
                if timed is not None and self._alarms.rings_for(timed, alarm_ms):
                    outcome.records += table.overdue(timed, now_ms)
                    self._schedule(timed)

    def _schedule(self, group: Group | ConsumerGroup | StreamsGroup | ShareGroup) -> None:
        self._alarms.set(group, len(self))

    def _sweep(self, now_ms: int, outcome: Outcome) -> None:
        """Deletes offsets whose retention is over, and groups that have neither members nor offsets."""
        wall_ms = now_ms + self.clock.offset_ms
        while self._to_sweep and len(outcome.records) < EXPIRED_RECORDS_MAX:
            group_id = self._to_sweep.pop()
            modern = self.modern(group_id)
            group = modern or self.groups.get(group_id)
            if group is None or group.state is GroupState.DEAD:
                continue
            expired = self._offset_requests.expired(group, wall_ms)
            outcome.records += expired
            remaining = self.offsets.all_partitions(group_id)
            remaining -= {TopicPartition(each.topic, each.partition) for each in expired}
            if remaining or group.members:
                continue
            if modern is not None:
                outcome.records += modern.tombstones()
            elif isinstance(group, Group) and group.state is GroupState.EMPTY and not group.pending_members:
                outcome.records.append(GroupDeleted(group_id))
