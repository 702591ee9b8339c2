"""Power cuts and failing disks at every write, sync and rename of a cleaning: nothing acknowledged is lost or comes back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence.world.files import Fault, Keep, PowerCut

from oncelog.errors import StorageError
from oncelog.log import leftovers
from oncelog.log.segment_swap import SegmentSwap
from tests.log.cleaning_world import CONFIG, DIRECTORY, CleaningWorld

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
SEEDS = range(1 + 30 * LONG)
SEEDS_OF_SECOND_CUTS = range(1 + 4 * LONG)  # each is a second power cut at every operation of a start, for every first
STEP = 1 if LONG else 5  # the fast suite looks at every fifth operation, and at every one where what survives is drawn


def fill(world: CleaningWorld) -> None:
    """Several segments: keys written again, transactions committed, aborted, open; tombstones."""
    for index in range(7):
        world.put((f"k{index % 3}", f"plain {index} " * 6), ("often", str(index)))
        world.put((f"k{index % 4}", f"aborted {index} " * 6), ("a", str(index)), producer_id=1)
        world.put((f"k{index % 4}", f"committed {index} " * 6), ("c", str(index)), producer_id=2)
        world.mark(1, commit=False)
        world.mark(2, commit=True, bumps=index % 2 == 0)
        world.log.roll()
    world.put(("k1", None), ("a", None))
    world.put(("k0", "open"), producer_id=3)
    world.log.roll()
    world.put(("later", "1"))
    world.sync()


def once(world: CleaningWorld) -> None:
    world.clean()
    world.put(("after", "1"))


def again(world: CleaningWorld) -> None:
    """What the first cleaning left is cleaned once more, with its tombstones and empty transactions."""
    world.clean()
    world.now_ms += 2000
    world.mark(3, commit=True)
    world.put(("often", "last"), ("k0", "x"))
    world.log.roll()
    world.put(("later", "2"))
    world.clean()
    world.now_ms += 2000
    world.put(("later", "3"))
    world.log.roll()
    world.clean()


WORKLOADS: list[Callable[[CleaningWorld], None]] = [once, again]


def filled(seed: object) -> CleaningWorld:
    world = CleaningWorld(str(seed), replace(CONFIG, segment_bytes=2500))  # groups of several segments
    fill(world)
    return world


def operations_of(workload: Callable[[CleaningWorld], None]) -> int:
    world = filled("count")
    before = world.files.operation_count
    workload(world)
    return world.files.operation_count - before


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("keep", list(Keep))
def test_power_cut_at_every_operation(workload: Callable[[CleaningWorld], None], keep: Keep) -> None:
    count = operations_of(workload)
    assert count > 50
    for operation in range(1, count + 1, 1 if keep is Keep.RANDOM else STEP):
        for seed in SEEDS if keep is Keep.RANDOM else range(1):
            world = filled(f"{operation} {seed}")
            world.files.cut_power_at(operation)
            with pytest.raises(PowerCut):
                workload(world)
            world.crash(keep)
            world.clean()
            world.check()
            world.put(("k2", "goes on"))
            world.check()


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.__name__)
def test_power_cut_while_a_start_finishes_a_swap(workload: Callable[[CleaningWorld], None]) -> None:
    count = operations_of(workload)
    for first in range(count // 4, count + 1, 1 if LONG else 12):
        for seed in SEEDS_OF_SECOND_CUTS:
            for second in range(1, 400):
                world = filled(f"{first} {seed}")
                world.files.cut_power_at(first)
                with pytest.raises(PowerCut):
                    workload(world)
                world.files.crash()
                world.files.cut_power_at(second)
                try:
                    world.open()
                except PowerCut:
                    world.crash()
                    continue
                world.crash()
                break
            else:
                pytest.fail("a start has fewer operations than that")


def test_power_cut_while_a_start_finishes_what_a_kill_left() -> None:
    """The killed process had not synced its last changes of names; the start sees them, and may lose them still."""
    count = operations_of(once)
    for first in range(count // 2, count + 1, 1 if LONG else 2):
        for second in range(1, 400, 1 if LONG else 3):
            world = filled(f"killed {first} {second}")
            world.files.cut_power_at(first)
            with pytest.raises(PowerCut):
                once(world)
            world.files.is_off = False  # it was the process that ended here, not the power
            world.files.cut_power_at(second + first % 3)
            try:
                world.kill()
            except PowerCut:
                world.crash()
                continue
            world.crash()
            break
        else:
            pytest.fail("a start has fewer operations than that")


@pytest.mark.parametrize("fault", list(Fault))
def test_every_operation_fails(fault: Fault) -> None:
    for operation in range(1, operations_of(again) + 1, STEP):
        world = filled(f"fault {operation}")
        world.files.fail_at(operation, fault)
        try:
            again(world)
        except StorageError:
            committed = world.partition.last_stable_offset
            assert world.log.read(0, 10_000, committed) is not None, "what was committed stays readable"
        world.files.heal()
        world.crash()
        world.clean()
        world.check()


def test_names_that_a_failed_sync_forgot_do_not_come_back() -> None:
    """The process sees its renames and goes on from them after a restart; the disk has lost some of them for good."""
    for operation in range(1, operations_of(again) + 1, 1 if LONG else 2):
        for seed in range(1 + 4 * LONG):
            world = filled(f"forgotten {operation} {seed}")
            world.files.fail_at(operation, Fault.SYNC_ERROR)
            with contextlib.suppress(StorageError):
                again(world)
            world.files.heal()
            world.kill()
            world.sync()
            world.crash(Keep.NONE)
            world.check()


def test_starting_twice_changes_nothing() -> None:
    for operation in range(1, operations_of(again) + 1, 2 * STEP):
        world = filled(f"twice {operation}")
        world.files.cut_power_at(operation)
        with pytest.raises(PowerCut):
            again(world)
        world.crash()
        before = world.files.snapshot(DIRECTORY)
        world.files.crash(Keep.NONE)
        world.open()
        assert world.files.snapshot(DIRECTORY) == before


def test_what_was_replaced_is_not_given_up_before_its_successors_names_are_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Housekeeping may ask at any moment what can be removed."""
    given_up: dict[str, list[str]] = {}

    def step(self: CleaningWorld, do: Callable[[], None]) -> None:
        do()
        given_up.setdefault(do.__name__, []).extend(self.log.take_deleted())
        self.files.sync_directory(DIRECTORY)

    monkeypatch.setattr(CleaningWorld, "_step", step)
    once(filled("given up"))
    assert given_up["announce"] == given_up["replace"] == []
    assert any(path.endswith(".log.deleted") for path in given_up["finish"])


# The checks can fail.


def test_a_swap_without_a_sync_before_the_last_rename_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old segments would lie in the middle of the new one."""
    finish = SegmentSwap.finish

    def finish_at_once(self: SegmentSwap) -> None:
        return None

    def replace_and_finish(self: SegmentSwap, replace: Callable[[SegmentSwap], None] = SegmentSwap.replace) -> None:
        replace(self)
        finish(self)

    monkeypatch.setattr(SegmentSwap, "finish", finish_at_once)
    monkeypatch.setattr(SegmentSwap, "replace", replace_and_finish)
    assert anything_fails()


def test_announcing_before_the_files_are_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from oncelog.log import cleaner

    monkeypatch.setattr(cleaner, "sync_all", lambda files: None)
    assert anything_fails()


def test_a_start_that_leaves_what_a_swap_replaces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_replaced_by", lambda spans, names: [])
    assert anything_fails()


def anything_fails() -> bool:
    for operation in range(operations_of(once), 0, -1):  # a swap comes last
        for keep in (Keep.NONE, Keep.ALL, *[Keep.RANDOM] * 6):
            world = filled(f"{operation} {keep}")
            world.files.cut_power_at(operation)
            with contextlib.suppress(PowerCut):
                once(world)
            try:
                world.crash(keep)
            except (AssertionError, StorageError):
                return True
    return False


@pytest.mark.parametrize("files_max", [1, 2, 3])
def test_a_cleaning_is_synced_however_few_files_may_be_open(monkeypatch: pytest.MonkeyPatch, files_max: int) -> None:
    """Found by the simulator, default 144, with OPEN_FILES_MAX 1: a file closed for want of room was not synced."""
    monkeypatch.setattr("oncelog.log.open_files.OPEN_FILES_MAX", files_max)
    world = filled(files_max)
    world.clean()
    expected = world.committed()
    world.sync()
    world.crash(Keep.NONE)
    world.check()
    assert world.committed() == expected
