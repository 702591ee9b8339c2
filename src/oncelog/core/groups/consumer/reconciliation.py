"""How a member gets from what it has to its target, one heartbeat at a time (KIP-848, "Member Assignment").

Nobody gets a partition before its former owner has said that it gave it back. A member first gives back
(UNREVOKED_PARTITIONS, still in its old epoch), then takes what is free in the target's epoch, and waits for the rest
(UNRELEASED_PARTITIONS).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from oncelog.core.groups.consumer.member import ConsumerGroupMember, MemberState
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.consumer_groups import EpochsOfPartitions, Partitions
from oncelog.wire.messages.consumer_group_heartbeat import TopicPartitions

Owned = Sequence[TopicPartitions] | None


@dataclass(frozen=True, slots=True)
class Target:
    """What a member is to have, and from which group epoch that is."""

    assignment_epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Everything that decides a member's next step. `owned` is the request's list, None where it has none."""

    member: ConsumerGroupMember
    target: Target
    subscribed_topic_ids: frozenset[bytes]
    is_owned: Callable[[bytes, int], bool]
    owned: Owned
    has_subscription_changed: bool = False

    def next(self) -> ConsumerGroupMember:
        """The member after this step; itself where it can do none."""
        member = self.member
        if member.state is MemberState.STABLE and member.member_epoch == self.target.assignment_epoch:
            return self._shrunk() if self.has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_has(member.pending_revocation):
            return self._shrunk() if self.has_subscription_changed else member
        return self._towards_target()

    def _still_has(self, pending: EpochsOfPartitions) -> bool:
        """Without a list nothing is known to be given back."""
        if self.owned is None:
            return True
        return any(index in pending.get(each.topic_id, {}) for each in self.owned for index in each.partitions)

    def _shrunk(self) -> ConsumerGroupMember:
        """Takes away at once what the member does not read any more; the rest has time."""
        member = self.member
        dropped = {topic_id: epochs for topic_id, epochs in member.assigned.items() if not self._reads(topic_id)}
        if not dropped:
            return member
        assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in dropped}
        pending = {topic_id: dict(epochs) for topic_id, epochs in member.pending_revocation.items()}
        for topic_id, epochs in dropped.items():
            pending.setdefault(topic_id, {}).update(epochs)
        moved = member.moved_to(member.member_epoch)
        if self._still_has(pending):
            return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending_revocation=pending)
        return replace(moved, assigned=assigned)

    def _reads(self, topic_id: bytes) -> bool:
        return topic_id in self.subscribed_topic_ids

    def _towards_target(self) -> ConsumerGroupMember:
        member, target = self.member, self.target
        kept: dict[bytes, dict[int, int]] = {}
        to_revoke: dict[bytes, dict[int, int]] = {}
        to_assign: dict[bytes, list[int]] = {}
        must_wait = False
        for topic_id in {*target.partitions, *member.assigned}:
            wanted = target.partitions.get(topic_id, frozenset()) if self._reads(topic_id) else frozenset()
            present = member.assigned.get(topic_id, {})
            mine = member.pending_revocation.get(topic_id, {})
            staying = {each: since for each, since in present.items() if each in wanted}
            leaving = {each: since for each, since in present.items() if each not in wanted}
            missing = [each for each in sorted(wanted) if each not in staying]
            free = [each for each in missing if each in mine or not self.is_owned(topic_id, each)]
            must_wait = must_wait or len(free) < len(missing)
            if staying:
                kept[topic_id] = staying
            if leaving:
                to_revoke[topic_id] = leaving
            if free:
                to_assign[topic_id] = free
        if to_revoke and self._still_has(to_revoke):
            return replace(
                member.moved_to(member.member_epoch),
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=kept,
                pending_revocation=to_revoke,
            )
        for topic_id, partitions in to_assign.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.assignment_epoch))
        return replace(
            member.moved_to(target.assignment_epoch),
            state=MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE,
            assigned=kept,
            pending_revocation={},
        )
