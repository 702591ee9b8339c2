"""One share group: its members, its epochs, their targets, as the records of the log say (KIP-932).

Only `replay` changes what the log holds: when a decision's records are appended, and in recovery. Soft are the timers and what
was looked at last. Nobody has to give anything back: a partition may have many readers, and its records are locked one by one.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum

from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.share_groups import (
    Partitions,
    ShareCurrentMember,
    ShareGroupEpoch,
    ShareGroupKey,
    ShareGroupRecord,
    ShareMember,
    ShareStatePartitions,
    ShareTargetEpoch,
    ShareTargetMember,
    ShareTombstone,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
NOTHING: Partitions = {}


class ShareGroupState(Enum):
    """Kafka's names, as ShareGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member: what it said, and what it has."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)

    def metadata_record(self, group_id: str) -> ShareMember:
        """What it said, for the log."""
        names = tuple(sorted(self.topic_names))
        return ShareMember(group_id, self.member_id, self.rack_id, self.client_id, self.client_host, names)

    def current_record(self, group_id: str) -> ShareCurrentMember:
        """What it has, for the log."""
        return ShareCurrentMember(
            group_id, self.member_id, self.member_epoch, self.previous_member_epoch, self.assigned
        )


class ShareGroup:
    """The tables of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareGroupMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.begun: Partitions = {}  # the partitions that have a state in `__share_group_state`
        self.topic_names: dict[bytes, str] = {}  # of those
        self.static_members: dict[str, str] = {}  # a share group has none
        # soft
        self.deadlines_ms: dict[str, int] = {}  # of the members' sessions
        self.assigned_ms: int | None = None
        self.topics_version = -1  # of the topics that the hash was last compared with
        self.scheduled_ms: int | None = None  # the coordinator's alarm for this group

    @property
    def state(self) -> ShareGroupState:
        """Whether anybody is there."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_bare(self) -> bool:
        """Whether the log knows nothing of it any more."""
        return not self.members and self.group_epoch == 0

    def replay(self, record: ShareGroupRecord) -> None:
        """One record of the log, in its order."""
        match record:
            case ShareGroupEpoch():
                self.group_epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
            case ShareMember():
                self.members[record.member_id] = replace(
                    self._member(record.member_id),
                    rack_id=record.rack_id,
                    client_id=record.client_id,
                    client_host=record.client_host,
                    topic_names=frozenset(record.topic_names),
                )
            case ShareCurrentMember():
                self.members[record.member_id] = replace(
                    self._member(record.member_id),
                    member_epoch=record.member_epoch,
                    previous_member_epoch=record.previous_member_epoch,
                    assigned=record.partitions,
                )
            case ShareTargetEpoch():
                self.assignment_epoch = record.assignment_epoch
            case ShareTargetMember():
                self.targets[record.member_id] = record.partitions
            case ShareStatePartitions():
                self.begun, self.topic_names = record.partitions, dict(record.topic_names)
            case ShareTombstone():
                self._delete(record)

    def _member(self, member_id: str) -> ShareGroupMember:
        return self.members.get(member_id) or ShareGroupMember(member_id)

    def _delete(self, record: ShareTombstone) -> None:
        match record.key:
            case ShareGroupKey.MEMBER:
                self.members.pop(record.member_id, None)
                self.deadlines_ms.pop(record.member_id, None)
            case ShareGroupKey.CURRENT_MEMBER:
                member = self.members.get(record.member_id)
                if member is not None:
                    gone = replace(member, member_epoch=-1, previous_member_epoch=-1, assigned=NOTHING)
                    self.members[record.member_id] = gone
            case ShareGroupKey.TARGET_MEMBER:
                self.targets.pop(record.member_id, None)
            case ShareGroupKey.TARGET_EPOCH:
                self.assignment_epoch = -1
            case ShareGroupKey.STATE_PARTITIONS:
                self.begun, self.topic_names = {}, {}
            case ShareGroupKey.GROUP_EPOCH:
                self.group_epoch = 0

    def tombstones(self) -> list[ShareGroupRecord]:
        """What deletes the group, with every member; the order matters to Apache Kafka's replay."""
        keys = ShareGroupKey
        records: list[ShareGroupRecord] = []
        records += [ShareTombstone(keys.CURRENT_MEMBER, self.group_id, each) for each in self.members]
        records += [ShareTombstone(keys.TARGET_MEMBER, self.group_id, each) for each in self.members]
        records.append(ShareTombstone(keys.TARGET_EPOCH, self.group_id))
        records += [ShareTombstone(keys.MEMBER, self.group_id, each) for each in self.members]
        records.append(ShareTombstone(keys.STATE_PARTITIONS, self.group_id))
        records.append(ShareTombstone(keys.GROUP_EPOCH, self.group_id))
        return records

    def member_tombstones(self, member_id: str) -> list[ShareGroupRecord]:
        """What removes one member."""
        keys = ShareGroupKey
        order = (keys.CURRENT_MEMBER, keys.TARGET_MEMBER, keys.MEMBER)
        return [ShareTombstone(key, self.group_id, member_id) for key in order]

    def next_deadline(self) -> int | None:
        """When the first session is over, in ms of the caller's clock."""
        return min(self.deadlines_ms.values(), default=None)

    def take_overdue(self, now_ms: int) -> list[str]:
        """The members whose session is over."""
        overdue = [member_id for member_id, deadline_ms in self.deadlines_ms.items() if deadline_ms <= now_ms]
        for member_id in overdue:
            del self.deadlines_ms[member_id]
        return [member_id for member_id in overdue if member_id in self.members]
