"""The assignor "sticky" of streams groups: tasks stay where they are, loads are equal, standbys are on other processes.

Steps, as Apache Kafka 4.3's: an active task goes to the member that had it, else to one that had it as standby, each while
that member has less than its fair share; what is left goes to the least loaded process and there to its least loaded
member. A standby goes to the member that had the task actively, else to one that had it as standby, else to the least
loaded process that has nothing of the task. A process has as much capacity as it has members. Where Kafka's choice between
equals depends on the order of a hash table, it is by name here. Warm-up tasks are never given (nor by Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from oncelog.core.groups.streams.topology import ConfiguredSubtopology
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.streams_groups import TargetTasks


class Task(NamedTuple):
    """Partition number `partition` of a subtopology."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What the assignor knows of a member; `former` is what it was to have before."""

    member_id: str
    process_id: str
    former: TargetTasks


def assign(
    members: Sequence[MemberSpec], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
) -> dict[str, TargetTasks]:
    """The tasks of each member."""
    if not members:
        return {}
    return _Assignment(members, subtopologies, standby_replicas).made()


@dataclass(slots=True)
class _Share:
    """How many tasks a member may take: an equal part of what is left among those that have not had theirs."""

    tasks: int
    members: int
    size: int = 0

    def __post_init__(self) -> None:
        self._divide()

    def _divide(self) -> None:
        self.size = -(-self.tasks // self.members) if self.members else 0

    def taken(self, count: int) -> None:
        """A member has `count` tasks now."""
        if count == self.size:
            self.members -= 1
            self.tasks -= count
            self._divide()


@dataclass(slots=True)
class _Process:
    rank: int
    counts: dict[str, int] = field(default_factory=dict)  # of tasks, by member
    tasks: set[Task] = field(default_factory=set)
    count: int = 0

    @property
    def load(self) -> float:
        return self.count / len(self.counts)

    def add(self, member_id: str, task: Task) -> int:
        """The member's count then."""
        self.tasks.add(task)
        self.counts[member_id] += 1
        self.count += 1
        return self.counts[member_id]

    def least_loaded(self) -> str:
        """Its member with the fewest tasks."""
        return min(self.counts, key=lambda each: (self.counts[each], each))


class _Assignment:
    def __init__(
        self, members: Sequence[MemberSpec], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
    ) -> None:
        self._subtopologies = subtopologies
        self._standby_replicas = standby_replicas
        self._process_of: dict[str, _Process] = {}
        self._former_active: dict[Task, str] = {}
        self._former_standby: dict[Task, list[str]] = {}
        self._active: dict[str, list[Task]] = {}
        self._standby: dict[str, list[Task]] = {}
        processes: dict[str, _Process] = {}
        for each in sorted(members, key=lambda member: (member.process_id, member.member_id)):
            process = processes.setdefault(each.process_id, _Process(len(processes)))
            process.counts[each.member_id] = 0
            self._process_of[each.member_id] = process
            self._active[each.member_id], self._standby[each.member_id] = [], []
            for task in _listed(each.former.active):
                self._former_active[task] = each.member_id
            for task in _listed(each.former.standby):
                self._former_standby.setdefault(task, []).append(each.member_id)
        self._processes = list(processes.values())
        active = sum(each.task_count for each in subtopologies.values())
        stateful = sum(each.task_count for each in subtopologies.values() if each.is_stateful)
        self._active_share = _Share(active, len(members))
        self._total_share = _Share(active + stateful * standby_replicas, len(members))

    def made(self) -> dict[str, TargetTasks]:
        """The whole assignment."""
        self._assign_active()
        if self._standby_replicas:
            self._assign_standby()
        return {
            member_id: TargetTasks(_grouped(self._active[member_id]), _grouped(self._standby[member_id]))
            for member_id in self._active
        }

    def _tasks(self, *, only_stateful: bool) -> list[Task]:
        return [
            Task(name, partition)
            for name, each in self._subtopologies.items()
            if each.is_stateful or not only_stateful
            for partition in range(each.task_count)
        ]

    # -- active tasks ----------------------------------------------------------------------------------------------

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(only_stateful=False), key=lambda task: (task.partition, task.subtopology))
        left = []
        for task in tasks:
            former = self._former_active.get(task)
            if former is not None and self._has_room(former, self._active_share):
                self._give_active(former, task)
            else:
                left.append(task)
        tasks, left = left, []
        for task in tasks:
            former = self._least_loaded_of(self._former_standby.get(task, ()), None)
            if former is not None and self._has_room(former, self._active_share):
                self._give_active(former, task)
            else:
                left.append(task)
        heap = self._by_load()
        for task in sorted(left):
            _, rank = heappop(heap)
            process = self._processes[rank]
            self._give_active(process.least_loaded(), task)
            heappush(heap, (process.load, rank))

    def _give_active(self, member_id: str, task: Task) -> None:
        self._active[member_id].append(task)
        count = self._process_of[member_id].add(member_id, task)
        self._active_share.taken(count)
        self._total_share.taken(count)

    # -- standby tasks ---------------------------------------------------------------------------------------------

    def _assign_standby(self) -> None:
        tasks = sorted(
            self._tasks(only_stateful=True), key=lambda task: (task.partition, task.subtopology), reverse=True
        )
        left = []
        for task in tasks:
            given = 0
            while given < self._standby_replicas and (member_id := self._former_with_room(task)) is not None:
                self._give_standby(member_id, task)
                given += 1
            left += [task] * (self._standby_replicas - given)
        heap = self._by_load()
        for task in sorted(left, reverse=True):
            self._give_standby_to_least_loaded(heap, task)

    def _former_with_room(self, task: Task) -> str | None:
        active = self._former_active.get(task)
        if active is not None and self._may_stand_by(active, task):
            return active
        standby = self._least_loaded_of(self._former_standby.get(task, ()), task)
        return standby if standby is not None and self._may_stand_by(standby, task) else None

    def _may_stand_by(self, member_id: str, task: Task) -> bool:
        return task not in self._process_of[member_id].tasks and self._has_room(member_id, self._total_share)

    def _give_standby_to_least_loaded(self, heap: list[tuple[float, int]], task: Task) -> None:
        """Where every process has the task already, there is nobody who could stand by."""
        passed_over = []
        while heap:
            entry = heappop(heap)
            process = self._processes[entry[1]]
            if task not in process.tasks:
                self._give_standby(process.least_loaded(), task)
                passed_over.append((process.load, entry[1]))
                break
            passed_over.append(entry)
        for entry in passed_over:
            heappush(heap, entry)

    def _give_standby(self, member_id: str, task: Task) -> None:
        self._standby[member_id].append(task)
        self._total_share.taken(self._process_of[member_id].add(member_id, task))

    # -- loads -----------------------------------------------------------------------------------------------------

    def _by_load(self) -> list[tuple[float, int]]:
        heap = [(each.load, each.rank) for each in self._processes]
        heapify(heap)
        return heap

    def _has_room(self, member_id: str, share: _Share) -> bool:
        return self._process_of[member_id].counts[member_id] < share.size

    def _least_loaded_of(self, member_ids: Iterable[str], task: Task | None) -> str | None:
        """Of these, on the least loaded process that has nothing of `task`."""
        able = [each for each in member_ids if task is None or task not in self._process_of[each].tasks]

        def load(member_id: str) -> tuple[float, int, str]:
            process = self._process_of[member_id]
            return process.load, process.counts[member_id], member_id

        return min(able, key=load, default=None)


def _listed(tasks: Mapping[str, frozenset[int]]) -> list[Task]:
    return [Task(name, partition) for name, partitions in tasks.items() for partition in partitions]


def _grouped(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology, set()).add(task.partition)
    return {name: frozenset(found[name]) for name in sorted(found)}
