"""Power cuts, killed processes, failed syncs and stops at every point of drawn histories: what was acknowledged is there, and
what survives a power cut is a prefix of what was appended, over all partitions."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from evidence.world.files import Fault, Keep, PowerCut
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog.errors import StorageError
from tests.broker.partitions.journal_world import SMALL, JournalWorld, turns

LONG = int(os.environ.get("ONCELOG_LONG", "0"))

topics = st.sampled_from("abc")
steps = st.one_of(
    st.tuples(st.just("append"), topics, st.sampled_from([1, 40, 300, 700, 1200]), st.booleans()),
    st.tuples(st.sampled_from(["commit", "begin commit", "sync data", "begin sync data", "free", "free"])),
    st.tuples(st.just("turns"), st.integers(1, 9)),
    st.tuples(st.just("roll"), topics),
    st.tuples(st.just("delete records"), topics),
    st.tuples(st.just("recreate"), topics),
    st.tuples(st.sampled_from(["kill", "stop", "cut stop"]), st.booleans()),
    st.tuples(st.just("crash"), st.sampled_from(list(Keep))),
    st.tuples(st.just("cut power"), st.integers(1, 60)),
    st.tuples(st.just("fail a sync"), st.integers(1, 20)),
)


@contextlib.contextmanager
def small_segments() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(patch(name, value))
        yield


class Driven:
    """A world, and what is under way in it."""

    def __init__(self, seed: int) -> None:
        self.world = JournalWorld(seed)
        self.under_way: list[asyncio.Task[Any]] = []
        self.deleted: list[str] = []  # topics that are to be made anew
        self.topic_count = 3

    async def perform(self, step: tuple[Any, ...]) -> None:
        try:
            await self._perform(step)
        except (PowerCut, AssertionError):
            if not self.world.files.is_off:
                raise
        if self.world.files.is_off:
            await self._ended()
            await self._crash(Keep.RANDOM)

    async def _perform(self, step: tuple[Any, ...]) -> None:
        world, flusher = self.world, self.world.flusher
        match step:
            case ("append", str(topic), int(size_bytes), bool(waits)):
                with contextlib.suppress(StorageError):
                    world.append(topic, size_bytes, waits=waits, timestamp=1_000 + len(world.history))
            case ("commit",):
                await (flusher.commit() if world.has_journal else flusher.sync_all())
            case ("begin commit",):
                self._begin(flusher.commit() if world.has_journal else flusher.sync_all())
            case ("sync data",):
                await (flusher.sync_data() if world.has_journal else flusher.sync_all())
            case ("begin sync data",):
                self._begin(flusher.sync_data() if world.has_journal else flusher.sync_all())
            case ("free",):
                await world.free()
            case ("turns", int(count)):
                await turns(count)
            case ("roll", str(topic)):
                with contextlib.suppress(StorageError):
                    world.partition(topic).log.roll()
            case ("delete records", str(topic)):
                with contextlib.suppress(StorageError):
                    world.partitions.log_starts.delete_records(
                        partition := world.partition(topic), partition.rules.high_watermark
                    )
            case ("recreate", str(topic)):
                self._recreate(topic)
            case ("kill", bool(has_journal)):
                await self._ended()
                world.files.kill()
                await self._start(has_journal=has_journal)
            case ("stop", bool(has_journal)):
                await self._stop(has_journal, is_cut_short=False)
            case ("cut stop", bool(has_journal)):
                await self._stop(has_journal, is_cut_short=True)
            case ("crash", Keep() as keep):
                await self._ended()
                await self._crash(keep)
            case ("damage", str(topic), float(share)):
                world.damage_one(topic, share)
            case ("repair", bool(is_cut)):
                await self._ended()
                world.repair()
                if is_cut:
                    await self._crash(Keep.RANDOM)
                else:
                    world.files.kill()
                    await self._start()
            case ("cut power", int(operation)):
                world.files.cut_power_at(operation)
            case ("fail a sync", int(operation)):
                world.files.fail_at(operation, Fault.SYNC_ERROR)

    def _begin(self, work: Any) -> None:
        self.under_way.append(asyncio.get_running_loop().create_task(work))

    def _recreate(self, topic: str) -> None:
        world = self.world
        old = world.metadata.topics.pop(topic)
        world.history = [each for each in world.history if each.name.topic != topic]
        for name in old.partitions():
            world.acknowledged.pop(name, None)
            world.damage.pop(name, None)
            world.was_offline.discard(name)
        self.deleted.append(topic)
        try:
            world.partitions.remove(old)
        except StorageError:
            world.not_removed.add(topic)
        self._make_deleted_anew()

    def _make_deleted_anew(self) -> None:
        """Not before its removal was over, or the start behind a power cut in the middle of that."""
        for topic in self.deleted:
            self.topic_count += 1
            self.world.make_topic(topic, bytes([self.topic_count]) * 16)
        self.deleted.clear()

    async def _stop(self, has_journal: bool, *, is_cut_short: bool) -> None:
        world = self.world
        if not is_cut_short:
            await asyncio.gather(*self.under_way)
            await world.flusher.sync_all()
        else:
            for task in self.under_way:
                task.cancel()
        await self._ended()
        with contextlib.suppress(StorageError):
            await world.stop_now()
        world.files.kill()
        await self._start(has_journal=has_journal)

    async def _ended(self) -> None:
        """Of a power cut or a kill: nothing that is under way goes on, or leaves an error that nobody looks at."""
        waiting = [*self.under_way, *self.world.syncer.running]
        await asyncio.gather(*waiting, return_exceptions=True)
        self.under_way.clear()

    async def _crash(self, keep: Keep) -> None:
        self.world.files.crash(keep)
        await self._start(is_whole=False)

    async def _start(self, *, is_whole: bool = True, has_journal: bool = True) -> None:
        """Again where the power goes, or a sync fails, in the middle of it."""
        had_journal = self.world.has_journal
        for _ in range(9):
            try:
                await self.world.start(has_journal=has_journal)
                break
            except PowerCut:
                await self._ended()
                self.world.files.crash(Keep.RANDOM)
                is_whole = False
            except StorageError:
                await self._ended()
                self.world.files.kill()
        self._make_deleted_anew()
        self.world.check(is_cut=had_journal and not is_whole, is_whole=is_whole)


async def driven(script: list[tuple[Any, ...]], seed: int) -> None:
    world = Driven(seed)
    await world.world.start()
    for step in [*script, ("crash", Keep.RANDOM), ("repair", seed % 2 == 0)]:
        await world.perform(step)


# The data sync of a big batch that is not journaled yet fails; the sync that its entry waits for succeeds, and says nothing.
UNTRUE_SYNC = [
    ("roll", "c"),
    ("crash", Keep.RANDOM),
    ("fail a sync", 8),
    ("append", "c", 700, False),
    ("append", "a", 1, False),
    ("sync data",),
]


# A start gives up the journal, and the sync of the directory fails; the next start finds nothing to give up, and what was removed
# comes back with the power cut: the file that says that there is a journal, and none of its segments.
UNTRUE_REMOVAL = [
    ("fail a sync", 13),
    ("kill", False),
    ("append", "a", 1, False),
    ("cut power", 2),
    ("roll", "b"),
    ("stop", False),
]

# The same of the file that says that the journal is over: it comes back, and the new journal counts as over.
UNTRUE_END = [("fail a sync", 16), ("kill", True), ("append", "a", 1, True), ("commit",)]


# A deleted topic's directory cannot be renamed, and is moved aside when its successor is written to.
MOVED_ASIDE = [
    ("append", "a", 1200, False),
    ("append", "a", 1200, False),
    ("begin commit",),
    ("fail a sync", 1),
    ("recreate", "a"),
    ("append", "a", 700, True),
]


# The power goes while a topic's files are removed: what checkpoints say of it is not about its successor.
CUT_REMOVAL = [
    ("append", "a", 1, False),
    ("commit",),
    ("delete records", "a"),
    ("cut power", 1),
    ("recreate", "a"),
    ("roll", "a"),
]


# The disk takes no checkpoint after a removal; and a partition is recovered whose process had not synced whose it is.
UNSTORED_REMOVAL = [
    ("append", "a", 1, False),
    ("commit",),
    ("cut power", 19),
    ("fail a sync", 15),
    ("delete records", "a"),
    ("recreate", "a"),
    ("roll", "a"),
]
NOBODYS = [("append", "a", 1, False), ("kill", False), ("fail a sync", 1), ("recreate", "a")]


@example(NOBODYS, 0)
@example(UNSTORED_REMOVAL, 1)
@example(CUT_REMOVAL, 1)
@example(MOVED_ASIDE, 0)
@example(UNTRUE_SYNC, 0)
@example(UNTRUE_REMOVAL, 166)
@example(UNTRUE_END, 2)
@settings(max_examples=150 + 5000 * LONG, deadline=None)
@given(st.lists(steps, max_size=40), st.integers(0, 1000))
def test_what_survives_is_a_prefix_and_has_what_was_acknowledged(script: list[tuple[Any, ...]], seed: int) -> None:
    with small_segments():
        asyncio.run(driven(script, seed))


some = st.lists(steps, max_size=6)
kept = st.lists(
    st.tuples(st.just("append"), topics, st.sampled_from([1, 300, 700]), st.just(True)), min_size=1, max_size=6
)
ends = st.lists(steps | st.tuples(st.just("crash"), st.sampled_from(list(Keep))), max_size=4)


@settings(max_examples=150 + 5000 * LONG, deadline=None)
@given(
    kept,
    some,
    kept,
    st.booleans(),
    st.tuples(st.just("damage"), topics, st.sampled_from([0.0, 0.5, 0.99])),
    some,
    ends,
    some,
)
def test_what_was_damaged_and_is_repaired_is_whole(
    first: list[tuple[Any, ...]],
    between: list[tuple[Any, ...]],
    then: list[tuple[Any, ...]],
    is_freed: bool,
    damage: tuple[Any, ...],
    after: list[tuple[Any, ...]],
    ended: list[tuple[Any, ...]],
    last: list[tuple[Any, ...]],
) -> None:
    """It stays offline, however often the broker starts; nothing is cut in it that was acknowledged, and nothing kept in it that
    all others lost."""
    freed = [("commit",), ("free",), ("free",)] if is_freed else [("commit",)]
    script = [
        *first,
        *freed,
        *between,
        *then,
        ("commit",),
        damage,
        *after,
        ("kill", True),
        *ended,
        ("repair", is_freed),
        *last,
    ]
    with small_segments():
        asyncio.run(driven(script, len(script)))


# After a kill the page cache alone has the snapshot of a roll. A start must not remove what only that snapshot stands for.
REMOVED = [
    ("append", "b", 700, True),
    *[("commit",)] * 4,
    ("delete records", "b"),
    ("append", "a", 1, True),
    ("commit",),
    ("commit",),
    ("roll", "b"),
    ("cut power", 40),
    ("append", "c", 1, False),
    ("kill", True),
    ("crash", Keep.RANDOM),
]


def test_a_start_removes_nothing_before_the_snapshot_that_stands_for_it_is_synced() -> None:
    for seed in range(40):
        with small_segments():
            asyncio.run(driven(REMOVED, seed))


# A name that was made before a sync of the data directory failed, of a partition that nobody had written to (`roll` makes it).
# And one whose opening failed: its topic is made anew while a file of the old one is still open.
UNNAMED = [("append", "b", 1, False), ("roll", "a")]
MADE_ANEW = [("append", "b", 1, True), ("commit",), ("delete records", "b"), ("recreate", "b"), *UNNAMED]


@pytest.mark.parametrize("before", [UNNAMED, MADE_ANEW], ids=["unnamed", "made anew"])
@pytest.mark.parametrize("end", [("stop", True), ("stop", False), ("cut stop", True), ("kill", True)], ids=str)
def test_whichever_sync_fails_before_an_end_or_in_the_start_behind_it_nothing_is_lost_that_is_acknowledged_later(
    before: list[tuple[Any, ...]], end: tuple[Any, ...]
) -> None:
    with small_segments():
        for operation in range(1, 46):
            for seed in range(3 + 20 * LONG):
                for topic in "ab":
                    fails = ("fail a sync", operation)
                    script = [fails, *before, end, ("append", topic, 1, True), ("commit",)]
                    asyncio.run(driven(script, seed + operation))


@pytest.mark.parametrize("has_journal", [True, False])
@pytest.mark.parametrize("operation", range(1, 26))
def test_a_sync_that_fails_in_a_start_loses_nothing_that_is_acknowledged_later(
    operation: int, has_journal: bool
) -> None:
    """The start fails and the next one does not; then the power goes. What the first one had removed may be there again."""
    script = [("fail a sync", operation), ("kill", has_journal), ("append", "a", 1, True), ("commit",)]
    with small_segments():
        for seed in range(6 + 60 * LONG):
            asyncio.run(driven(script, seed))
