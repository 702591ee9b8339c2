"""The steps of which every change of a consumer group is made: member, epoch, targets, the asking member's next step.

A `GroupChange` collects the records of one decision. It looks at the group as it is and changes only what is soft
(timers, what was looked at last); the records change the rest when they are in the log. Refusals are `Refused`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import Enum

from oncelog.core.groups.config import ConsumerSettings, GroupConfig
from oncelog.core.groups.consumer.assignors import ASSIGNORS, MemberSpec
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics, metadata_hash
from oncelog.core.groups.consumer.member import ConsumerGroupMember, MemberState
from oncelog.core.groups.consumer.reconciliation import Owned, Reconciliation, Target
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.core.name_pattern import InvalidPattern, NamePattern
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.consumer_groups import (
    ConsumerGroupKey,
    GroupEpoch,
    Partitions,
    ResolvedRegex,
    TargetEpoch,
    TargetMember,
    Tombstone,
)
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord

FIRST_GROUP_EPOCH = 1  # a new group is in the log, whatever its first member asks for
REGEX_RESOLVE_INTERVAL_MIN_MS = 10_000  # Kafka's: patterns of a group are looked at together, and not more often


class RegexChange(Enum):
    """What a member's new pattern means for the group."""

    NONE = 0
    UNRESOLVED = 1  # the group waits until it is known which topics match
    RESOLVED = 2


@dataclass(slots=True)
class GroupChange:
    """One decision about one group, while it is being made. `wall_offset_ms` makes ms since 1970 of `now_ms`."""

    group: ConsumerGroup
    config: GroupConfig
    settings: ConsumerSettings
    topics: Topics
    now_ms: int
    wall_offset_ms: int = 0
    records: list[ConsumerOffsetsRecord] = field(default_factory=list)

    # -- members ---------------------------------------------------------------------------------------------------

    def replace_static(self, former: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """KIP-345: the same static member with another id keeps what it has and what it is to have."""
        group_id = self.group.group_id
        member = replace(former, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        self.records += self.group.member_tombstones(former.member_id)
        self.records.append(member.metadata_record(group_id))
        target = self.group.targets.get(former.member_id, {})
        self.records.append(TargetMember(group_id, member_id, target))
        self.records.append(member.current_record(group_id))
        return member

    def update(self, member: ConsumerGroupMember, updated: ConsumerGroupMember) -> bool:
        """Notes what the member says of itself; whether it names other topics than before."""
        if updated != member:
            self.records.append(updated.metadata_record(self.group.group_id))
        return updated.topic_names != member.topic_names

    def update_regex(self, member: ConsumerGroupMember, updated: ConsumerGroupMember) -> RegexChange:
        """Notes a new pattern. Raises Refused where it is none."""
        old, new = member.topic_regex, updated.topic_regex
        change = RegexChange.NONE
        must_resolve = False
        if old != new:
            change = RegexChange.UNRESOLVED
            if old and self.group.subscribers_of_regex(old) == 1:
                self.records.append(Tombstone(ConsumerGroupKey.REGULAR_EXPRESSION, self.group.group_id, old))
            if new and self.group.subscribers_of_regex(new) == 0:
                _check_pattern(new)
                must_resolve = True
            elif new in self.group.regexes or (old and not new):
                change = RegexChange.RESOLVED
        self._want_resolution(updated, must_resolve=must_resolve)
        return change

    def _want_resolution(self, updated: ConsumerGroupMember, *, must_resolve: bool) -> None:
        group = self.group
        regexes = {each.topic_regex for each in group.with_member(updated).values() if each.topic_regex}
        if not regexes or group.must_resolve_regexes:
            return
        resolved_ms = group.regexes_resolved_ms
        if resolved_ms is not None and group.regexes:  # nothing counts of patterns that are gone, as in Kafka
            if self.now_ms <= resolved_ms + REGEX_RESOLVE_INTERVAL_MIN_MS:
                return
            must_resolve |= self.now_ms > resolved_ms + self.config.group_consumer_regex_refresh_interval_ms
        must_resolve |= len(regexes) != len(group.regexes) or group.regexes_version < self.topics.topics_version
        group.must_resolve_regexes = must_resolve

    # -- epochs ----------------------------------------------------------------------------------------------------

    def refresh(self, members: Iterable[ConsumerGroupMember], *, bump: bool) -> int:
        """The group's epoch after this change: one more where asked for, or where a topic of the members changed."""
        group = self.group
        if group.group_epoch and not bump and group.topics_version == self.topics.topics_version:
            return group.group_epoch
        found = metadata_hash(group.subscribed_topics(members), self.topics.topics)
        group.topics_version = self.topics.topics_version
        group_epoch = (group.group_epoch or FIRST_GROUP_EPOCH) + (bump or found != group.metadata_hash)
        if group_epoch == group.group_epoch:
            return group_epoch
        self.records.append(GroupEpoch(group.group_id, group_epoch, found))
        return group_epoch

    def resolve_regexes(self) -> None:
        """Looks up which topics the group's patterns match; a difference is a new epoch."""
        group = self.group
        group.must_resolve_regexes = False
        group.regexes_resolved_ms, group.regexes_version = self.now_ms, self.topics.topics_version
        found: dict[str, ResolvedRegex] = {}
        for regex in sorted({each.topic_regex for each in group.members.values() if each.topic_regex}):
            matching = tuple(sorted(_matching(regex, self.topics.topics)))
            found[regex] = ResolvedRegex(
                group.group_id, regex, matching, self.topics.topics_version, self.now_ms + self.wall_offset_ms
            )
        if not found:
            return
        self.records += found.values()
        former = {regex: each.topics for regex, each in group.regexes.items()}
        is_changed = any(former.get(regex, ()) != each.topics for regex, each in found.items())
        names = {name for each in group.members.values() for name in each.topic_names}
        names.update(name for each in found.values() for name in each.topics)
        hashed = metadata_hash(names, self.topics.topics)
        group.topics_version = self.topics.topics_version
        if is_changed or hashed != group.metadata_hash:
            self.records.append(GroupEpoch(group.group_id, group.group_epoch + 1, hashed))

    # -- assignment ------------------------------------------------------------------------------------------------

    def target_for(self, member: ConsumerGroupMember, group_epoch: int) -> Target:
        """What the member is to have, computed anew for all where the group's epoch asks for it. Computing waits for
        the group's assignment interval (KIP-1263): until then the former target holds."""
        group = self.group
        interval_ms = self.settings.assignment_interval_ms
        is_too_early = group.assigned_ms is not None and self.now_ms < group.assigned_ms + interval_ms
        if group_epoch <= group.assignment_epoch or is_too_early:
            return Target(group.assignment_epoch, group.target_of(member))
        members = group.with_member(member)
        shares = ASSIGNORS[self._preferred_assignor(members.values())](
            [self._spec(each) for each in members.values()],
            {name: topic.partition_count for name, topic in self.topics.topics.items()},
        )
        own: Partitions = {}
        for member_id, share in shares.items():
            target = {self.topics.topics[name].topic_id: partitions for name, partitions in share.items()}
            if member_id == member.member_id:
                own = target
            if group.targets.get(member_id) != target:
                self.records.append(TargetMember(group.group_id, member_id, target))
        self.records.append(TargetEpoch(group.group_id, group_epoch, self.now_ms + self.wall_offset_ms))
        group.assigned_ms = self.now_ms
        return Target(group_epoch, own)

    def _preferred_assignor(self, members: Iterable[ConsumerGroupMember]) -> str:
        """The one that most members ask for; of equal ones the earliest configured."""
        configured = self.config.assignors
        votes = Counter(each.server_assignor for each in members if each.server_assignor in configured)
        return max(configured, key=lambda name: votes[name])

    def _spec(self, member: ConsumerGroupMember) -> MemberSpec:
        by_id = self.topics.topics_by_id
        former = self.group.target_of(member)
        return MemberSpec(
            member_id=member.member_id,
            topics=frozenset(name for name in self.group.topic_names_of(member) if name in self.topics.topics),
            instance_id=member.instance_id,
            former={by_id[topic_id].name: partitions for topic_id, partitions in former.items() if topic_id in by_id},
        )

    def reconcile(
        self, member: ConsumerGroupMember, target: Target, owned: Owned, *, has_subscription_changed: bool
    ) -> ConsumerGroupMember:
        """The member after its next step to the target, and the timer that watches it."""
        if not has_subscription_changed and member.is_reconciled_to(target.assignment_epoch):
            return member
        known = self.topics.topics
        names = self.group.topic_names_of(member)
        moved = Reconciliation(
            member=member,
            target=target,
            subscribed_topic_ids=frozenset(known[name].topic_id for name in names if name in known),
            is_owned=self.group.is_owned,
            owned=owned,
            has_subscription_changed=has_subscription_changed,
        ).next()
        if moved == member:
            return member
        self.records.append(moved.current_record(self.group.group_id))
        if not moved.uses_classic_protocol:
            self._watch_revocation(moved)
        return moved

    def _watch_revocation(self, member: ConsumerGroupMember) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = self.now_ms + member.rebalance_timeout_ms
            self.group.set_timer(member.member_id, MemberTimer.REBALANCE, deadline_ms)
            self.group.revoking_epochs[member.member_id] = member.member_epoch
        else:
            self.group.stop_timer(member.member_id, MemberTimer.REBALANCE)

    # -- members that go -------------------------------------------------------------------------------------------

    def remove(self, leaving: Mapping[str, ConsumerGroupMember]) -> None:
        """Members are out; who remains gets a new assignment with the next heartbeat."""
        group = self.group
        for member_id in leaving:
            self.records += group.member_tombstones(member_id)
        remaining = [each for each in group.members.values() if each.member_id not in leaving]
        still_used = {each.topic_regex for each in remaining}
        for regex in sorted({each.topic_regex for each in leaving.values() if each.topic_regex} - still_used):
            self.records.append(Tombstone(ConsumerGroupKey.REGULAR_EXPRESSION, group.group_id, regex))
        self.refresh(remaining, bump=True)


def _check_pattern(regex: str) -> None:
    try:
        NamePattern(regex)
    except InvalidPattern as fault:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {fault}.",
        ) from fault


def _matching(regex: str, names: Iterable[str]) -> list[str]:
    """A pattern that another broker took and this one cannot read matches nothing."""
    try:
        pattern = NamePattern(regex)
    except InvalidPattern:
        return []
    return [name for name in names if pattern.matches(name)]
