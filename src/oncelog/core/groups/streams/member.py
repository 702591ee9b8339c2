"""One member of a streams group (KIP-1071): what it said, what it has, and how far it is on its way to its target.

Immutable: a heartbeat makes another one, and the records tell the difference. A process (an instance of the application)
may have several members, one for each of its threads; they share its state directory.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import IntEnum

from oncelog.core.groups.streams.tasks import tasks_of
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.streams_groups import (
    NO_TOPOLOGY_EPOCH,
    AssignedTasks,
    Pairs,
    StreamsCurrentMember,
    StreamsMemberMetadata,
)

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2  # of a static member, which Apache Kafka 4.3 does not take
JOIN_EPOCH = 0


class MemberState(IntEnum):
    """Kafka's numbers, as the log has them."""

    STABLE = 0
    UNREVOKED_TASKS = 1  # has to give tasks back before it may go on
    UNRELEASED_TASKS = 2  # waits for tasks that others still have
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """A member as of some record of the log."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Pairs = ()
    assigned: AssignedTasks = field(default_factory=AssignedTasks)
    pending_revocation: AssignedTasks = field(default_factory=AssignedTasks)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of that target, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def has_same_tasks(self, other: StreamsGroupMember) -> bool:
        """Whether the same tasks are assigned, whenever they were."""
        mine, theirs = self.assigned, other.assigned
        return (tasks_of(mine.active), mine.standby, mine.warmup) == (
            tasks_of(theirs.active),
            theirs.standby,
            theirs.warmup,
        )

    # -- records ---------------------------------------------------------------------------------------------------

    def metadata_record(self, group_id: str) -> StreamsMemberMetadata:
        """What it said of itself."""
        return StreamsMemberMetadata(
            group_id=group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            endpoint=self.endpoint,
            client_tags=self.client_tags,
        )

    def current_record(self, group_id: str) -> StreamsCurrentMember:
        """What it has."""
        return StreamsCurrentMember(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=int(self.state),
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
        )

    def with_metadata(self, record: StreamsMemberMetadata) -> StreamsGroupMember:
        """The member after this record."""
        return replace(
            self,
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            topology_epoch=record.topology_epoch,
            process_id=record.process_id,
            endpoint=record.endpoint,
            client_tags=record.client_tags,
        )

    def with_current(self, record: StreamsCurrentMember) -> StreamsGroupMember:
        """The member after this record."""
        known = record.state in (MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS)
        return replace(
            self,
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            state=MemberState(record.state) if known else MemberState.UNKNOWN,
            assigned=record.assigned,
            pending_revocation=record.pending_revocation,
        )
