"""One member of a consumer group (KIP-848): what it said, what it has, and how far it is on its way to its target.

Immutable: a heartbeat makes another one, and the records tell the difference. A member of the classic protocol that
takes part through the embedded consumer protocol has `classic` set.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import IntEnum

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Assignment, assignment_to_bytes
from oncelog.wire.log_records.consumer_groups import ClassicMember, CurrentMember, EpochsOfPartitions, MemberMetadata
from oncelog.wire.messages.consumer_group_heartbeat import TopicPartitions

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2  # a static member that says it will be back
JOIN_EPOCH = 0


class MemberState(IntEnum):
    """Kafka's numbers, as the log has them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # has to give partitions back before it may go on
    UNRELEASED_PARTITIONS = 2  # waits for partitions that others still have
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member as of some record of the log."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = LEAVE_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: EpochsOfPartitions = field(default_factory=dict)
    pending_revocation: EpochsOfPartitions = field(default_factory=dict)
    classic: ClassicMember | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it joins, syncs and heartbeats in the old way."""
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of that target, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def moved_to(self, member_epoch: int) -> ConsumerGroupMember:
        """The member in another epoch; the present one becomes its previous one."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def has_same_assignment(self, other: ConsumerGroupMember) -> bool:
        """Whether the same partitions are assigned, whenever they were."""
        return partitions_of(self.assigned) == partitions_of(other.assigned)

    # -- records ---------------------------------------------------------------------------------------------------

    def metadata_record(self, group_id: str) -> MemberMetadata:
        """What it said of itself."""
        return MemberMetadata(
            group_id=group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=tuple(sorted(self.topic_names)),
            topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic=self.classic,
        )

    def current_record(self, group_id: str) -> CurrentMember:
        """What it has."""
        return CurrentMember(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=int(self.state),
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
        )

    def with_metadata(self, record: MemberMetadata) -> ConsumerGroupMember:
        """The member after this record."""
        return replace(
            self,
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            topic_names=frozenset(record.topic_names),
            topic_regex=record.topic_regex,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            server_assignor=record.server_assignor,
            classic=record.classic,
        )

    def with_current(self, record: CurrentMember) -> ConsumerGroupMember:
        """The member after this record."""
        return replace(
            self,
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            state=_state_of(record),
            assigned=record.assigned,
            pending_revocation=record.pending_revocation,
        )


def _state_of(record: CurrentMember) -> MemberState:
    """The state that a record says. Earlier, oncelog wrote one more than Apache Kafka's numbers; whose number it is
    shows in the partitions, as a member gives some back in one state only."""
    is_revoking = any(record.pending_revocation.values())
    match record.state:
        case 0:
            return MemberState.STABLE
        case 1:
            return MemberState.UNREVOKED_PARTITIONS if is_revoking else MemberState.STABLE
        case 2:
            return MemberState.UNREVOKED_PARTITIONS if is_revoking else MemberState.UNRELEASED_PARTITIONS
        case 3:
            return MemberState.UNRELEASED_PARTITIONS
        case _:
            return MemberState.UNKNOWN


def partitions_of(epochs: EpochsOfPartitions) -> dict[bytes, frozenset[int]]:
    """The partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in epochs.items() if partitions}


def to_wire(epochs: EpochsOfPartitions) -> list[TopicPartitions]:
    """As the heartbeat's response carries them."""
    return [TopicPartitions(topic_id=each, partitions=sorted(epochs[each])) for each in sorted(epochs)]


def to_consumer_protocol(epochs: EpochsOfPartitions, names: dict[bytes, str], version: int) -> bytes:
    """The embedded assignment of a classic member; topics that are gone are left out."""
    partitions = tuple(
        TopicPartition(names[topic_id], partition)
        for topic_id in sorted(epochs, key=lambda each: names.get(each, ""))
        if topic_id in names
        for partition in sorted(epochs[topic_id])
    )
    return assignment_to_bytes(Assignment(partitions), version=version)
