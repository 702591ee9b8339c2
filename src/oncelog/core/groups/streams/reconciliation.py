"""How a member gets from the tasks it has to its target, one heartbeat at a time (KIP-1071).

As in consumer groups (KIP-848) a member first gives back (UNREVOKED_TASKS, still in its old epoch), then takes what is free
in the target's epoch, and waits for the rest (UNRELEASED_TASKS). An active task is free when nobody has it, and nobody on
the member's own process has it in another role: they would share its state directory. A standby or warm-up task only needs
that of its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.member import MemberState, StreamsGroupMember
from oncelog.core.groups.streams.tasks import has_any, tasks_of
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.streams_groups import AssignedTasks, TargetTasks, Tasks


@dataclass(frozen=True, slots=True)
class Target:
    """What a member is to have, and from which group epoch that is."""

    assignment_epoch: int
    tasks: TargetTasks


class Owners(Protocol):
    """Who has which task now, giving back included."""

    def is_active(self, subtopology: str, partition: int) -> bool:
        """Whether somebody has it actively."""
        ...

    def is_on_process(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether a member of this process has it, in whatever role."""
        ...

    def is_passive_on_process(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether a member of this process has it as standby or warm-up."""
        ...


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Everything that decides a member's next step. `owned` is the request's list, None where it has none."""

    member: StreamsGroupMember
    target: Target
    owners: Owners
    owned: TargetTasks | None

    def next(self) -> StreamsGroupMember:
        """The member after this step; itself where it can do none. Raises Refused."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch == self.target.assignment_epoch:
                    return member
                return self._towards_target(member.member_epoch)
            case MemberState.UNREVOKED_TASKS:
                if self._still_has(member.pending_revocation):
                    return member
                return self._towards_target(member.member_epoch + 1)
            case MemberState.UNRELEASED_TASKS:
                return self._towards_target(member.member_epoch)
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned != TargetTasks():
                    raise Refused(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The streams group member is in a unknown state. "
                        "The member must abandon all its tasks and rejoin.",
                    )
                return self._towards_target(self.target.assignment_epoch)

    def _still_has(self, pending: AssignedTasks) -> bool:
        """Without a list nothing is known to be given back."""
        return self.owned is None or has_any(self.owned, pending)

    def _towards_target(self, member_epoch: int) -> StreamsGroupMember:
        member, wanted, assignment_epoch = self.member, self.target.tasks, self.target.assignment_epoch
        active = _Difference(tasks_of(member.assigned.active), wanted.active)
        standby = _Difference(member.assigned.standby, wanted.standby)
        warmup = _Difference(member.assigned.warmup, wanted.warmup)
        since = member.assigned.active
        leaving = AssignedTasks(
            {name: {each: since[name][each] for each in sorted(left)} for name, left in active.leaving.items()},
            standby.leaving,
            warmup.leaving,
        )
        kept = {name: {each: since[name][each] for each in sorted(stay)} for name, stay in active.staying.items()}
        if not leaving.is_empty and self._still_has(leaving):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                member_epoch=member_epoch,
                previous_member_epoch=member.member_epoch,
                assigned=AssignedTasks(kept, standby.staying, warmup.staying),
                pending_revocation=leaving,
            )
        new_active, waits_active = self._free(active.missing, is_active=True)
        new_standby, waits_standby = self._free(standby.missing, is_active=False)
        new_warmup, waits_warmup = self._free(warmup.missing, is_active=False)
        for name, partitions in new_active.items():
            kept.setdefault(name, {}).update(dict.fromkeys(sorted(partitions), assignment_epoch))
        must_wait = waits_active or waits_standby or waits_warmup
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE,
            member_epoch=assignment_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=AssignedTasks(kept, _union(standby.staying, new_standby), _union(warmup.staying, new_warmup)),
            pending_revocation=AssignedTasks(),
        )

    def _free(self, missing: Tasks, *, is_active: bool) -> tuple[dict[str, frozenset[int]], bool]:
        """What the member may take now, and whether something is left to wait for."""
        process_id, owners = self.member.process_id, self.owners

        def is_held(name: str, partition: int) -> bool:
            if not is_active:
                return owners.is_on_process(name, partition, process_id)
            return owners.is_active(name, partition) or owners.is_passive_on_process(name, partition, process_id)

        free = {name: frozenset(each for each in wanted if not is_held(name, each)) for name, wanted in missing.items()}
        return {name: found for name, found in free.items() if found}, free != dict(missing)


@dataclass(frozen=True, slots=True)
class _Difference:
    has: Tasks
    wants: Tasks

    @property
    def staying(self) -> dict[str, frozenset[int]]:
        return self._each(self.has, lambda has, wants: has & wants)

    @property
    def leaving(self) -> dict[str, frozenset[int]]:
        return self._each(self.has, lambda has, wants: has - wants)

    @property
    def missing(self) -> dict[str, frozenset[int]]:
        return self._each(self.wants, lambda has, wants: wants - has)

    def _each(self, names: Mapping[str, frozenset[int]], pick: _Pick) -> dict[str, frozenset[int]]:
        none: frozenset[int] = frozenset()
        found = {name: pick(self.has.get(name, none), self.wants.get(name, none)) for name in sorted(names)}
        return {name: partitions for name, partitions in found.items() if partitions}


class _Pick(Protocol):
    def __call__(self, has: frozenset[int], wants: frozenset[int], /) -> frozenset[int]: ...


def _union(one: Tasks, other: Tasks) -> dict[str, frozenset[int]]:
    none: frozenset[int] = frozenset()
    return {name: one.get(name, none) | other.get(name, none) for name in sorted({*one, *other})}
