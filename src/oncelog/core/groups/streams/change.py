"""The steps of which every change of a streams group is made: topology, epoch, targets, the asking member's next step.

A `StreamsChange` collects the records of one decision, and what the member is told beside its tasks. It looks at the group as
it is and changes only what is soft; the records change the rest when they are in the log. Refusals are `Refused`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from oncelog.core.groups.config import StreamsSettings
from oncelog.core.groups.consumer.group import Topics, metadata_hash
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.core.groups.streams.member import MemberState, StreamsGroupMember
from oncelog.core.groups.streams.reconciliation import Reconciliation, Target
from oncelog.core.groups.streams.sticky_assignor import MemberSpec, assign
from oncelog.core.groups.streams.tasks import NO_TASKS
from oncelog.core.groups.streams.topology import (
    ConfiguredTopology,
    Problem,
    StatusCode,
    Topology,
    check_indexes,
    configure,
)
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord
from oncelog.wire.log_records.streams_groups import (
    NO_TOPOLOGY_EPOCH,
    Pairs,
    StreamsGroupEpoch,
    StreamsTargetEpoch,
    StreamsTargetMember,
    TargetTasks,
)
from oncelog.wire.messages.streams_group_heartbeat import Topology as WireTopology

FIRST_GROUP_EPOCH = 1  # the epoch that a new group grows from


@dataclass(slots=True)
class StreamsChange:
    """One decision about one group, while it is being made. `wall_offset_ms` makes ms since 1970 of `now_ms`."""

    group: StreamsGroup
    settings: StreamsSettings
    topics: Topics
    now_ms: int
    wall_offset_ms: int = 0
    records: list[ConsumerOffsetsRecord] = field(default_factory=list)
    told: list[Problem] = field(default_factory=list)

    # -- topology --------------------------------------------------------------------------------------------------

    def topology_of(self, asked: WireTopology | None) -> Topology:
        """The group's topology: the first member's. Raises Refused where a member has another one."""
        known = self.group.topology
        if asked is None:
            if known is None:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
            return known
        check_indexes(asked.subtopologies)
        topology = Topology.of(asked.topology_epoch, asked.subtopologies)
        if known is None:
            self.records.append(topology.record(self.group.group_id))
            return topology
        if known.topology_epoch <= topology.topology_epoch and known != topology:
            raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def tell_if_stale(self, member: StreamsGroupMember) -> None:
        """The member runs an older topology than the group."""
        known = self.group.topology
        if known is not None and member.topology_epoch < known.topology_epoch:
            self.told.append(
                Problem(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                    f"{known.topology_epoch}.",
                )
            )

    def configured(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology with the topics that there are now, and their hash; made anew only where they changed."""
        group, found = self.group, self.group.configured
        if (
            found is not None
            and found.topology_epoch == topology.topology_epoch
            and group.topics_version == self.topics.topics_version
        ):
            return found, group.metadata_hash
        hashed = metadata_hash(topology.required_topics, self.topics.topics)
        if found is None or found.topology_epoch != topology.topology_epoch or hashed != group.metadata_hash:
            found = configure(topology, self.partition_count)
        return found, hashed

    def partition_count(self, name: str) -> int | None:
        """Of a topic; None where there is none of the name."""
        topic = self.topics.topics.get(name)
        return None if topic is None else topic.partition_count

    # -- epochs ----------------------------------------------------------------------------------------------------

    @property
    def assignment_configs(self) -> Pairs:
        """What the assignor goes by, as the log keeps it."""
        return (("num.standby.replicas", str(self.settings.num_standby_replicas)),)

    def refresh(self, configured: ConfiguredTopology, hashed: int, *, bump: bool) -> int:
        """The group's epoch after this change: one more where the members, the topics or the assignor's configs changed."""
        group = self.group
        validated = configured.topology_epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        is_changed = (hashed, validated, self.assignment_configs) != (
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        )
        group.configured, group.topics_version = configured, self.topics.topics_version
        if not bump and not is_changed and group.group_epoch:
            return group.group_epoch
        group_epoch = (group.group_epoch or FIRST_GROUP_EPOCH) + 1
        self.records.append(StreamsGroupEpoch(group.group_id, group_epoch, hashed, validated, self.assignment_configs))
        return group_epoch

    # -- assignment ------------------------------------------------------------------------------------------------

    def target_for(self, member: StreamsGroupMember, group_epoch: int) -> Target:
        """What the member is to have, computed anew for all where the group's epoch asks for it. A new group waits for
        more members first, and every group for its assignment interval (KIP-1263)."""
        group = self.group
        if not group.members and self.settings.initial_rebalance_delay_ms > 0 and group.initial_delay_ms is None:
            group.initial_delay_ms = self.now_ms + self.settings.initial_rebalance_delay_ms
        if group.initial_delay_ms is not None:
            self._tell_delay("initial rebalance delay")
            return Target(group.assignment_epoch, NO_TASKS)
        if group_epoch <= group.assignment_epoch:
            return Target(group.assignment_epoch, group.target_of(member.member_id))
        if group.assigned_ms is not None and self.now_ms < group.assigned_ms + self.settings.assignment_interval_ms:
            self._tell_delay("assignment interval")
            return Target(group.assignment_epoch, group.target_of(member.member_id))
        members = {**group.members, member.member_id: member}
        return Target(group_epoch, self._compute(members, group_epoch)[member.member_id])

    def _tell_delay(self, cause: str) -> None:
        self.told.append(Problem(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {cause}."))

    def compute_delayed(self) -> None:
        """The initial delay is over: the members that are here share."""
        group = self.group
        if group.members and group.group_epoch > group.assignment_epoch and group.topology is not None:
            group.configured, _ = self.configured(group.topology)
            self._compute(group.members, group.group_epoch)

    def _compute(self, members: Mapping[str, StreamsGroupMember], group_epoch: int) -> dict[str, TargetTasks]:
        group, configured = self.group, self.group.configured
        targets = dict.fromkeys(members, NO_TASKS)
        if configured is not None and configured.is_ready and configured.subtopologies is not None:
            specs = [MemberSpec(each, known.process_id, group.target_of(each)) for each, known in members.items()]
            targets = assign(specs, configured.subtopologies, self.settings.num_standby_replicas)
        for member_id in sorted(members):
            if group.targets.get(member_id) != targets[member_id]:
                self.records.append(StreamsTargetMember(group.group_id, member_id, targets[member_id]))
        self.records.append(StreamsTargetEpoch(group.group_id, group_epoch, self.now_ms + self.wall_offset_ms))
        group.assigned_ms = self.now_ms
        return targets

    def reconcile(self, member: StreamsGroupMember, target: Target, owned: TargetTasks | None) -> StreamsGroupMember:
        """The member after its next step to the target, and the timer that watches it. Raises Refused."""
        if member.is_reconciled_to(target.assignment_epoch):
            return member
        moved = Reconciliation(member, target, self.group.owners, owned).next()
        if moved == member:
            return member
        self.records.append(moved.current_record(self.group.group_id))
        if moved.state is MemberState.UNREVOKED_TASKS:
            deadline_ms = self.now_ms + moved.rebalance_timeout_ms
            self.group.set_timer(moved.member_id, MemberTimer.REBALANCE, deadline_ms)
            self.group.revoking_epochs[moved.member_id] = moved.member_epoch
        else:
            self.group.stop_timer(moved.member_id, MemberTimer.REBALANCE)
        return moved

    # -- members that go -------------------------------------------------------------------------------------------

    def remove(self, member_ids: list[str]) -> None:
        """Members are out; who remains gets a new assignment with the next heartbeat."""
        group = self.group
        if not member_ids:
            return
        for member_id in member_ids:
            self.records += group.member_tombstones(member_id)
            group.forget_timers(member_id)
        self.records.append(
            StreamsGroupEpoch(
                group.group_id,
                group.group_epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )
