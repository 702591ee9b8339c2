"""Tasks: one partition number of one subtopology. A member has active, standby and warm-up tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.wire.log_records.streams_groups import AssignedTasks, EpochsOfTasks, TargetTasks, Tasks
from oncelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

NO_TASKS = TargetTasks()


def tasks_of(epochs: EpochsOfTasks) -> dict[str, frozenset[int]]:
    """The tasks without their epochs."""
    return {subtopology: frozenset(partitions) for subtopology, partitions in epochs.items() if partitions}


def has_any(owned: TargetTasks, pending: AssignedTasks) -> bool:
    """Whether one of the pending tasks is still owned, in the same role."""
    return (
        _meet(owned.active, tasks_of(pending.active))
        or _meet(owned.standby, pending.standby)
        or _meet(owned.warmup, pending.warmup)
    )


def _meet(one: Tasks, other: Tasks) -> bool:
    return any(partitions & other.get(subtopology, frozenset()) for subtopology, partitions in one.items())


def owned_in(request: StreamsGroupHeartbeatRequest) -> TargetTasks | None:
    """What the member says it has; None where it does not say it of all three kinds."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TargetTasks(from_wire(active), from_wire(standby), from_wire(warmup))


def is_all_of(owned: TargetTasks, assigned: AssignedTasks) -> bool:
    """Whether somebody has exactly what is assigned."""
    return (_some(owned.active), _some(owned.standby), _some(owned.warmup)) == (
        tasks_of(assigned.active),
        _some(assigned.standby),
        _some(assigned.warmup),
    )


def _some(tasks: Tasks) -> dict[str, frozenset[int]]:
    return {subtopology: partitions for subtopology, partitions in tasks.items() if partitions}


def is_part(owned: Iterable[TaskIds] | None, tasks: Tasks) -> bool:
    """Whether all of what is listed is among the tasks. Without a list nothing is known."""
    if owned is None:
        return False
    return all(set(each.partitions) <= tasks.get(each.subtopology_id, frozenset()) for each in owned)


def from_wire(found: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    """The tasks that a request lists."""
    tasks: dict[str, frozenset[int]] = {}
    for each in found:
        tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()).union(each.partitions)
    return tasks


def to_wire(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    """As the heartbeat's response lists them."""
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
