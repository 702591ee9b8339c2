"""The share groups of one coordinator (KIP-932): heartbeats, sessions that end, the states that begin with a subscription.

Decisions look at what is appended, as those of consumer groups do: `is_ahead` until the log has it. A group that is a share
group is no other kind, and the other way round: `other_kinds` says what is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import WallClock
from oncelog.core.groups.config import GroupConfig, ShareGroupSettings
from oncelog.core.groups.consumer.group import Topics, metadata_hash
from oncelog.core.groups.share.assignor import assign
from oncelog.core.groups.share.group import JOIN_EPOCH, LEAVE_EPOCH, NOTHING, ShareGroup, ShareGroupMember
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.share_groups import (
    Partitions,
    ShareGroupEpoch,
    ShareGroupKey,
    ShareGroupRecord,
    ShareStatePartitions,
    ShareTargetEpoch,
    ShareTargetMember,
    ShareTombstone,
)
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

FIRST_GROUP_EPOCH = 1  # a new group is in the log, whatever its first member asks for


class _Refused(Exception):
    """The heartbeat's answer is an error."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


@dataclass(frozen=True, slots=True)
class Caller:
    """What the shell knows of who asks."""

    client_id: str
    client_host: str


class ShareGroups:
    """The table of share groups. `other_kinds` tells whether a group is of another kind."""

    def __init__(
        self,
        config: GroupConfig,
        topics: Topics,
        *,
        other_kinds: Callable[[str], bool],
        clock: WallClock | None = None,
        overrides: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self.by_id: dict[str, ShareGroup] = {}
        self._config = config
        self._topics = topics
        self._other_kinds = other_kinds
        self._clock = clock or WallClock()
        self._overrides = overrides
        self._beginning: dict[str, ShareGroup] = {}  # decided, not in the log
        self._ahead: deque[ShareGroupRecord] = deque()

    def reconfigured(self, config: GroupConfig) -> None:
        """The broker's keys were altered."""
        self._config = config

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether there are changes that the log may still lose."""
        return bool(self._ahead)

    def appended(self, record: ShareGroupRecord) -> None:
        """The record is in the log, not committed there yet."""
        self._ahead.append(record)
        self._replay(record)

    def failed(self, record: ShareGroupRecord) -> None:
        """The record is not in the log: its partition is offline, and nothing is decided here any more."""
        self._beginning.pop(record.group_id, None)
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()

    def apply(self, record: ShareGroupRecord) -> None:
        """One committed record: live it has been taken over with its append, in recovery it is now."""
        if self._ahead and self._ahead[0] is record:
            self._ahead.popleft()
        else:
            self._replay(record)

    def _replay(self, record: ShareGroupRecord) -> None:
        group = self.by_id.get(record.group_id)
        if group is None:
            if isinstance(record, ShareTombstone):
                return
            group = self._beginning.pop(record.group_id, None) or ShareGroup(record.group_id)
            self.by_id[record.group_id] = group
        group.replay(record)
        if isinstance(record, ShareTombstone) and record.key is ShareGroupKey.GROUP_EPOCH:
            del self.by_id[record.group_id]

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: every member gets a fresh session."""
        for group_id in [each for each, group in self.by_id.items() if group.is_bare]:
            del self.by_id[group_id]
        for group in self.by_id.values():
            deadline_ms = now_ms + self._settings(group.group_id).session_timeout_ms
            group.deadlines_ms = dict.fromkeys(group.members, deadline_ms)

    def _settings(self, group_id: str) -> ShareGroupSettings:
        return self._config.share_settings(self._overrides(group_id))

    # -- states ----------------------------------------------------------------------------------------------------

    def to_begin(self, request: ShareGroupHeartbeatRequest) -> dict[bytes, frozenset[int]]:
        """The partitions that the group will read and that have no state yet: the shell begins it before the heartbeat."""
        group = self.by_id.get(request.group_id) or ShareGroup(request.group_id)
        names = request.subscribed_topic_names
        if request.member_epoch < JOIN_EPOCH or (names is None and group.topics_version == self._topics.topics_version):
            return {}
        wanted = set(names or ()).union(*(each.topic_names for each in group.members.values()))
        found = {}
        for topic in (self._topics.topics[name] for name in sorted(wanted) if name in self._topics.topics):
            missing = frozenset(range(topic.partition_count)) - group.begun.get(topic.topic_id, frozenset())
            if missing:
                found[topic.topic_id] = missing
        return found

    def has_begun(self, key: ShareKey) -> bool:
        """Whether the group says that this partition has a state."""
        group = self.by_id.get(key.group_id)
        return group is not None and key.partition in group.begun.get(key.topic_id, ())

    def began(self, group_id: str, partitions: Partitions) -> list[ShareGroupRecord]:
        """These partitions have a state now: what says so in the log, with those that had one."""
        group = self.by_id.get(group_id) or ShareGroup(group_id)
        known = self._topics.topics_by_id
        begun = {topic_id: indexes for topic_id, indexes in group.begun.items() if topic_id in known}
        names = {topic_id: group.topic_names[topic_id] for topic_id in begun}
        for topic_id, indexes in partitions.items():
            topic = known.get(topic_id)
            if topic is not None:
                begun[topic_id] = begun.get(topic_id, frozenset()) | indexes
                names[topic_id] = topic.name
        if not partitions or begun == group.begun:
            return []
        return [ShareStatePartitions(group_id, begun, names)]

    def forgotten(self, group_id: str, topic_ids: Iterable[bytes]) -> list[ShareGroupRecord]:
        """The states of these topics are gone: what says so in the log."""
        group = self.by_id[group_id]
        gone = set(topic_ids).intersection(group.begun)
        if not gone:
            return []
        kept = {topic_id: indexes for topic_id, indexes in group.begun.items() if topic_id not in gone}
        return [ShareStatePartitions(group_id, kept, {each: group.topic_names[each] for each in kept})]

    def altered(self, group_id: str, partitions: Partitions) -> list[ShareGroupRecord]:
        """An operator has told where these partitions go on: what says so in the log. A group that was not there begins."""
        records: list[ShareGroupRecord] = []
        if group_id not in self.by_id and partitions:
            records += [ShareGroupEpoch(group_id, FIRST_GROUP_EPOCH), ShareTargetEpoch(group_id, FIRST_GROUP_EPOCH)]
        return [*records, *self.began(group_id, partitions)]

    def refusal_to_change(self, group_id: str, *, may_create: bool) -> tuple[ErrorCode, str] | None:
        """Why an operator may not change where a group stands."""
        group = self.by_id.get(group_id)
        if group is not None:
            return (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.") if group.members else None
        if self._other_kinds(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
        return None if may_create else (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, begun: Partitions, now_ms: int
    ) -> Decision:
        """ShareGroupHeartbeat v1; `begun` are partitions whose state has begun since `to_begin` was asked."""
        try:
            _check(request)
            if request.member_epoch == LEAVE_EPOCH:
                return self._leave(request)
            group = self._group_to_join(request)
            decision = _Beat(self, group, request, caller, begun, now_ms).decision()
            if request.group_id not in self.by_id:
                self._beginning[request.group_id] = group
            return decision
        except _Refused as refused:
            return Decision(
                reply=ShareGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message)
            )

    def _group_to_join(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        group = self.by_id.get(request.group_id)
        if group is not None:
            return group
        if self._other_kinds(request.group_id):
            raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
        if request.member_epoch != JOIN_EPOCH:
            raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        return ShareGroup(request.group_id)

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Decision:
        group = self.by_id.get(request.group_id)
        if group is None:
            what = "is not a share group" if self._other_kinds(request.group_id) else "not found"
            raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        if request.member_id not in group.members:
            raise _unknown(request.member_id, group.group_id)
        reply = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
        return Decision(records=tuple(self._removed(group, [request.member_id])), reply=reply)

    def overdue(self, group: ShareGroup, now_ms: int) -> list[ShareGroupRecord]:
        """What follows for members whose session is over."""
        return self._removed(group, group.take_overdue(now_ms))

    def _removed(self, group: ShareGroup, member_ids: list[str]) -> list[ShareGroupRecord]:
        records: list[ShareGroupRecord] = []
        for member_id in member_ids:
            records += group.member_tombstones(member_id)
        if records:
            remaining = [each for each in group.members.values() if each.member_id not in member_ids]
            records.append(ShareGroupEpoch(group.group_id, group.group_epoch + 1, self.hash_of(remaining)))
        return records

    def hash_of(self, members: Iterable[ShareGroupMember]) -> int:
        """Of the topics that these members read."""
        return metadata_hash({name for each in members for name in each.topic_names}, self._topics.topics)

    # -- for `_Beat` -----------------------------------------------------------------------------------------------

    @property
    def topics(self) -> Topics:
        """The topics of the cluster."""
        return self._topics

    @property
    def wall_offset_ms(self) -> int:
        """What to add to the coordinator's time for ms since 1970."""
        return self._clock.offset_ms

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        """What holds for a group."""
        return self._settings(group_id)


class _Beat:
    """One heartbeat while it is being decided."""

    def __init__(
        self,
        groups: ShareGroups,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        caller: Caller,
        begun: Partitions,
        now_ms: int,
    ) -> None:
        self._groups = groups
        self._group = group
        self._request = request
        self._caller = caller
        self._now_ms = now_ms
        self._settings = groups.settings_of(group.group_id)
        self._records: list[ShareGroupRecord] = groups.began(group.group_id, begun)
        self._begun = {**group.begun}
        for record in self._records:
            assert isinstance(record, ShareStatePartitions)
            self._begun = dict(record.partitions)

    def decision(self) -> Decision:
        """What follows. Raises _Refused."""
        group, request = self._group, self._request
        known = self._known_member()
        updated = self._updated(known)
        if updated.metadata_record(group.group_id) != known.metadata_record(group.group_id):
            self._records.append(updated.metadata_record(group.group_id))
        members = {**group.members, updated.member_id: updated}
        group_epoch = self._group_epoch(members, bump=updated.topic_names != known.topic_names)
        assignment_epoch, target = self._target(members, group_epoch)
        current = self._moved(updated, assignment_epoch, target.get(updated.member_id, NOTHING))
        if current != updated:
            self._records.append(current.current_record(group.group_id))
        group.deadlines_ms[current.member_id] = self._now_ms + self._settings.session_timeout_ms
        reply = ShareGroupHeartbeatResponse(
            member_id=current.member_id,
            member_epoch=current.member_epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if is_full or current.assigned != known.assigned:
            reply.assignment = Assignment(topic_partitions=_to_wire(current.assigned))
        return Decision(records=tuple(self._records), reply=reply)

    def _known_member(self) -> ShareGroupMember:
        group, request = self._group, self._request
        member = group.members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                raise _unknown(request.member_id, group.group_id)
            if len(group.members) >= self._settings.members_max:
                raise _Refused(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The share group has reached its maximum capacity of {self._settings.members_max} members.",
                )
            return ShareGroupMember(request.member_id)
        _check_epoch(member, request.member_epoch)
        return member

    def _updated(self, member: ShareGroupMember) -> ShareGroupMember:
        request = self._request
        names = request.subscribed_topic_names
        return replace(
            member,
            rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            topic_names=member.topic_names if names is None else frozenset(names),
        )

    def _group_epoch(self, members: Mapping[str, ShareGroupMember], *, bump: bool) -> int:
        group, version = self._group, self._groups.topics.topics_version
        is_same = group.topics_version == version and not self._records
        if group.group_epoch and not bump and is_same:
            return group.group_epoch
        found = self._groups.hash_of(members.values())
        group.topics_version = version
        has_begun = self._begun != group.begun
        group_epoch = (group.group_epoch or FIRST_GROUP_EPOCH) + (bump or has_begun or found != group.metadata_hash)
        if group_epoch != group.group_epoch:
            self._records.append(ShareGroupEpoch(group.group_id, group_epoch, found))
        return group_epoch

    def _target(
        self, members: Mapping[str, ShareGroupMember], group_epoch: int
    ) -> tuple[int, Mapping[str, Partitions]]:
        group, interval_ms = self._group, self._settings.assignment_interval_ms
        is_too_early = group.assigned_ms is not None and self._now_ms < group.assigned_ms + interval_ms
        if group_epoch <= group.assignment_epoch or is_too_early:
            return group.assignment_epoch, group.targets
        by_name = self._groups.topics.topics
        shares = assign(
            {
                member_id: frozenset(by_name[name].topic_id for name in each.topic_names if name in by_name)
                for member_id, each in members.items()
            },
            {
                topic_id: found
                for topic_id, found in self._begun.items()
                if topic_id in self._groups.topics.topics_by_id
            },
            {
                member_id: frozenset((topic_id, index) for topic_id, found in target.items() for index in found)
                for member_id, target in group.targets.items()
            },
        )
        targets = {member_id: _by_topic(share) for member_id, share in shares.items()}
        self._records += [
            ShareTargetMember(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if group.targets.get(member_id) != target
        ]
        wall_ms = self._now_ms + self._groups.wall_offset_ms
        self._records.append(ShareTargetEpoch(group.group_id, group_epoch, wall_ms))
        group.assigned_ms = self._now_ms
        return group_epoch, targets

    @staticmethod
    def _moved(member: ShareGroupMember, assignment_epoch: int, target: Partitions) -> ShareGroupMember:
        if member.member_epoch == assignment_epoch and member.assigned == target:
            return member
        return replace(
            member,
            member_epoch=assignment_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=target,
        )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    if not request.member_id:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    if not request.group_id.strip():
        raise _Refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.rack_id == "":
        raise _Refused(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _Refused(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise _Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _check_epoch(member: ShareGroupMember, member_epoch: int) -> None:
    """Epoch 0 always may join anew; the previous one is a retry whose answer may have been lost."""
    if member_epoch in (JOIN_EPOCH, member.member_epoch, member.previous_member_epoch):
        return
    is_greater = member_epoch > member.member_epoch
    previous = f", and it does not match the previous member epoch ({member.previous_member_epoch})"
    raise _Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {'greater' if is_greater else 'smaller'} member epoch ({member_epoch}) than the "
        f"one known by the group coordinator ({member.member_epoch}){'' if is_greater else previous}. "
        "The member must abandon all its partitions and rejoin.",
    )


def _unknown(member_id: str, group_id: str) -> _Refused:
    return _Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def _by_topic(share: Iterable[tuple[bytes, int]]) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in share:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


def _to_wire(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=each, partitions=sorted(found)) for each, found in sorted(partitions.items())]
