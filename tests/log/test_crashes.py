"""Power cuts and failing disks at every operation of scripted workloads: nothing acknowledged is lost, ever."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from evidence.world.files import Fault, Keep, PowerCut
from evidence.world.partition_log import World

from oncelog.errors import StorageError

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
SEEDS = range(2 + 20 * LONG)


def plain(world: World) -> None:
    for i in range(12):
        world.append(count=1 + i % 3, value_bytes=30 + 90 * (i % 5))
        if i % 3 == 2:
            world.sync()
    world.store_recovery_point()
    world.append(value_bytes=600)
    world.append(value_bytes=700)


def transactions(world: World) -> None:
    for i in range(6):
        world.append(producer_id=1, value_bytes=200)
        world.append(producer_id=2 + i % 2, value_bytes=100)
        world.mark(1, commit=i % 2 == 0)
        if i % 2:
            world.sync()
            world.store_recovery_point()
        world.mark(2 + i % 2, commit=False)


def segments(world: World) -> None:
    """Several rolls between two syncs, a checkpoint, old segments removed."""
    for i in range(9):
        world.append(value_bytes=1100, producer_id=5 if i % 2 else -1)
    world.sync()
    world.mark(5, commit=False)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    world.delete_before(4)
    for _ in range(3):
        world.append(value_bytes=1100)
    world.sync()
    world.append(value_bytes=10)


def restarts(world: World) -> None:
    world.append(value_bytes=500, producer_id=7)
    world.sync()
    world.append(value_bytes=500, producer_id=7)
    world.kill()
    world.append(value_bytes=1500, producer_id=8)
    world.mark(7, commit=False)
    world.close()
    world.open(is_clean=True)
    world.check()
    world.append(value_bytes=20)
    world.sync()
    world.append(value_bytes=20)


WORKLOADS: list[Callable[[World], None]] = [plain, transactions, segments, restarts]


def operations_of(workload: Callable[[World], None]) -> int:
    world = World()
    before = world.files.operation_count
    workload(world)
    return world.files.operation_count - before


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("keep", list(Keep))
def test_power_cut_at_every_operation(workload: Callable[[World], None], keep: Keep) -> None:
    """The operation under way when the power goes is one of the writes that may be torn or lost."""
    cuts = 0
    for operation in range(1, operations_of(workload) + 1):
        for seed in SEEDS if keep in (Keep.RANDOM, Keep.LAST_TORN) else range(1):
            world = World(f"{operation} {seed}")
            world.files.cut_power_at(operation)
            with pytest.raises(PowerCut):
                workload(world)
            world.crash(keep)
            world.check_recovery_is_idempotent()
            world.append(value_bytes=333)
            world.sync()
            world.check()
            cuts += 1
    assert cuts > 20


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.__name__)
def test_power_cut_during_recovery(workload: Callable[[World], None]) -> None:
    """Recovery is cut at each of its own operations, then runs again."""
    for seed in SEEDS:
        for operation in range(1, 40):
            world = World(f"again {seed}")
            world.files.cut_power_at(operations_of(workload) * 2 // 3)
            with pytest.raises(PowerCut):
                workload(world)
            world.files.crash()
            world.files.cut_power_at(operation)
            try:
                world.open()
            except PowerCut:
                world.crash()
                world.check_recovery_is_idempotent()
                continue
            break
        else:
            pytest.fail("recovery never ended")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("is_sticky", [False, True])
def test_every_operation_fails(workload: Callable[[World], None], fault: Fault, is_sticky: bool) -> None:
    """A failed log takes nothing more, still serves what was acknowledged, and comes back through recovery."""
    failures = 0
    for operation in range(1, operations_of(workload) + 1):
        world = World(f"fault {operation}")
        world.files.fail_at(operation, fault, is_sticky=is_sticky)
        try:
            workload(world)
        except StorageError:
            failures += 1
            log = world.log
            if log.failure is not None:
                with pytest.raises(StorageError):
                    world.append()
                world.model.pop()
                if world.synced > world.log_start_offset:
                    assert log.read(world.log_start_offset, 10_000, world.synced) is not None
        world.files.heal()
        world.crash()
        world.check_recovery_is_idempotent()
    assert failures > 5 or is_sticky or fault is not Fault.IO_ERROR
