"""Group commit: what is synced when, what waits for it, and what a failed sync does. Files and syncer are in memory."""

import asyncio
from unittest.mock import Mock

import pytest
from evidence.world.broker import run, until
from evidence.world.files import SimFiles

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.partitions import flusher as flusher_module
from oncelog.broker.partitions.flusher import flusher_for
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.topic_configs import settings
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.tasks import Tasks
from oncelog.log.config import LogConfig
from oncelog.log.partition_log import WRITTEN_LATER_SIZE_BYTES_MIN
from oncelog.log.recovery import recover
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch, build_batch


class ManualSyncer:
    """Syncs when the test says so."""

    def __init__(self):
        self.calls = []

    async def sync(self, files):
        gate = asyncio.get_running_loop().create_future()
        self.calls.append((files, gate))
        await gate
        for file in files:
            file.sync()

    async def next(self, count):
        await until(lambda: len(self.calls) >= count)
        return self.calls[count - 1]


class World:
    def __init__(self, policy="fsync"):
        self.syncer, self.writer = ManualSyncer(), ManualSyncer()
        self.flusher = flusher_for(policy, self.syncer, self.writer, interval_ms=1)
        self.files = SimFiles()
        self.tasks = Tasks()
        self.busy = None

    def partition(self, name):
        rules = Partition()
        self.files.make_directory(f"/d/{name}")
        log = recover(self.files, f"/d/{name}", LogConfig(), rules).log
        rules.recovered(log_start_offset=0, log_end_offset=0)
        chosen = settings({}, BrokerConfig().topic_default)
        return LocalPartition(TopicPartition(name, 0), bytes(16), log, rules, chosen, self.flusher)


def append(partition, value_bytes=1):
    batch = RecordBatch(build_batch([(0, None, b"v" * value_bytes, ())]))
    return partition.append(batch, now_ms=0)


def test_what_comes_during_a_sync_shares_the_next_one():
    async def work():
        world = World()
        first, second = world.partition("a"), world.partition("b")
        world.tasks.start(world.flusher.run())
        committed = []
        first.when_committed(append(first), lambda code: committed.append("a0"))
        _, gate = await world.syncer.next(1)
        for number in range(3):
            first.when_committed(append(first), lambda code, n=number: committed.append(f"a{n + 1}"))
            second.when_committed(append(second), lambda code, n=number: committed.append(f"b{n}"))
        assert (committed, first.rules.high_watermark) == ([], 0)
        gate.set_result(None)
        _, gate = await world.syncer.next(2)
        assert (committed, first.rules.high_watermark) == (["a0"], 1)
        gate.set_result(None)
        await until(lambda: len(committed) >= 7)
        assert (world.flusher.sync_count, first.rules.high_watermark, second.rules.high_watermark) == (2, 4, 3)
        assert (world.flusher.commits.count, world.flusher.commits.total) == (2, 1 + 6), "who waited for each sync"
        await world.tasks.close()

    run(work())


def test_a_failed_sync_takes_its_partitions_offline_and_is_never_tried_again():
    async def work():
        world = World()
        partition, other = world.partition("a"), world.partition("b")
        world.tasks.start(world.flusher.run())
        codes = []
        partition.when_committed(append(partition), codes.append)
        _, gate = await world.syncer.next(1)
        partition.when_committed(append(partition), codes.append)
        gate.set_exception(StorageError("the disk is gone"))
        await until(lambda: len(codes) >= 2)
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert partition.is_offline
        assert partition.rules.high_watermark == 0
        with pytest.raises(StorageError):
            append(partition)
        later = []
        partition.when_committed(1, later.append)
        await asyncio.sleep(0)
        assert later == [ErrorCode.KAFKA_STORAGE_ERROR]
        other.when_committed(append(other), codes.append)
        _, gate = await world.syncer.next(2)
        gate.set_result(None)
        await until(lambda: len(codes) >= 3)
        assert codes[-1] is ErrorCode.NONE
        await world.tasks.close()

    run(work())


def test_a_failed_append_takes_the_partition_offline():
    async def work():
        world = World()
        partition = world.partition("a")
        append(partition)
        partition.log.fail(StorageError("the disk is full"))
        with pytest.raises(StorageError):
            append(partition)
        assert partition.is_offline
        assert partition.log_end_offset == 1

    run(work())


def test_a_log_that_fails_answers_who_waits():
    """Also where nobody but the log knows of it."""

    async def work():
        world = World()
        partition, codes, woken = world.partition("a"), [], []
        partition.watch(Mock(partition_changed=woken.append))
        partition.when_committed(append(partition), codes.append)
        partition.log.fail(StorageError("the disk is gone"))
        assert (codes, woken, partition.is_offline) == ([ErrorCode.KAFKA_STORAGE_ERROR], [partition], True)
        partition.log.fail(StorageError("and again"))
        partition.go_offline("and again")
        assert (codes, woken) == ([ErrorCode.KAFKA_STORAGE_ERROR], [partition]), "told once"
        assert await partition.commit(1) is ErrorCode.KAFKA_STORAGE_ERROR

    run(work())


def test_the_opt_outs_commit_without_the_disk():
    async def work():
        world = World(policy="os")
        partition = world.partition("a")
        world.tasks.start(world.flusher.run())
        assert await partition.commit(append(partition)) is ErrorCode.NONE
        assert (world.syncer.calls, partition.rules.high_watermark) == ([], 1)
        await world.tasks.close()

    run(work())


def test_who_waits_for_a_commit_waits_for_no_other_partition():
    async def work():
        world = World()
        first, second = world.partition("a"), world.partition("b")
        world.tasks.start(world.flusher.run())
        append(second)
        committed = []
        first.when_committed(append(first), committed.append)
        _, gate = await world.syncer.next(1)
        gate.set_result(None)
        await until(lambda: committed)
        assert (first.rules.high_watermark, second.rules.high_watermark) == (1, 0)
        await world.tasks.close()

    run(work())


def test_what_nobody_waits_for_is_synced_after_a_while():
    async def work():
        world = World(policy="interval")
        partition = world.partition("a")
        world.tasks.start(world.flusher.run_leftovers())
        append(partition)
        _, gate = await world.syncer.next(1)
        gate.set_result(None)
        await until(lambda: partition.log.synced_end_offset == 1)
        assert partition.rules.high_watermark == 1
        await world.tasks.close()

    run(work())


LARGE = WRITTEN_LATER_SIZE_BYTES_MIN


def append_large(world, partition):
    """While another partition has something to commit."""
    busy = world.partition("busy") if world.busy is None else world.busy
    world.busy = busy
    busy.when_committed(append(busy), lambda code: None)
    return append(partition, LARGE)


def content(world, name):
    return world.files.snapshot(f"/d/{name}")[f"/d/{name}/{0:020d}.log"]


@pytest.mark.parametrize("policy", ["os", "interval"])
def test_a_large_batch_is_committed_when_a_thread_has_written_it(policy):
    async def work():
        world = World(policy=policy)
        large, small = world.partition("a"), world.partition("b")
        world.tasks.start(world.flusher.run())
        committed = []
        large.when_committed(append_large(world, large), lambda code: committed.append(("a", code)))
        small.when_committed(append(small), lambda code: committed.append(("b", code)))
        _, gate = await world.writer.next(1)
        assert (committed, large.rules.high_watermark) == ([("b", ErrorCode.NONE)], 0)
        assert content(world, "a") == b""
        append(large)  # nobody waits for it, and it is behind what waits
        gate.set_result(None)
        _, gate = await world.writer.next(2)
        assert (committed[1:], large.rules.high_watermark) == ([("a", ErrorCode.NONE)], 1)
        assert len(content(world, "a")) > LARGE
        gate.set_result(None)
        await until(lambda: large.rules.high_watermark == 2)
        assert not large.log.has_later_writes
        assert world.syncer.calls == []
        await world.tasks.close()

    run(work())


def test_where_a_commit_waits_for_the_disk_nothing_is_written_later():
    async def work():
        world = World()
        partition = world.partition("a")
        append_large(world, partition)
        assert len(content(world, "a")) > LARGE

    run(work())


def test_alone_a_large_batch_is_written_at_once():
    """A thread would only cost more."""

    async def work():
        world = World(policy="os")
        partition = world.partition("a")
        world.tasks.start(world.flusher.run())
        for _ in range(2):
            partition.when_committed(append(partition, LARGE), lambda code: None)
        assert len(content(world, "a")) > 2 * LARGE
        await until(lambda: partition.rules.high_watermark == 2)
        assert world.writer.calls == []
        await world.tasks.close()

    run(work())


@pytest.mark.parametrize("policy", ["os", "interval"])
def test_what_nobody_waits_for_is_committed_too(policy, monkeypatch):
    async def work():
        monkeypatch.setattr(flusher_module, "LEFTOVER_INTERVAL_S", 0.001)
        world = World(policy=policy)
        partition = world.partition("a")
        world.tasks.start(world.flusher.run())
        world.tasks.start(world.flusher.run_leftovers())
        append(partition)
        if policy == "interval":
            _, gate = await world.syncer.next(1)
            gate.set_result(None)
        await until(lambda: partition.rules.high_watermark == 1)
        await world.tasks.close()

    run(work())


def test_what_goes_wrong_where_nobody_waits_ends_the_flusher(monkeypatch):
    async def work():
        world = World(policy="os")
        partition = world.partition("a")
        running = asyncio.ensure_future(world.flusher.run())
        append_large(world, partition)
        _, gate = await world.writer.next(1)
        monkeypatch.setattr(partition, "committed", lambda end_offset: 1 / 0)
        gate.set_result(None)
        with pytest.raises(ExceptionGroup) as caught:
            await running
        assert isinstance(caught.value.exceptions[0], ZeroDivisionError)

    run(work())


def test_a_write_that_fails_takes_its_partitions_offline_and_what_was_committed_stays():
    async def work():
        world = World(policy="os")
        partition, other = world.partition("a"), world.partition("b")
        world.tasks.start(world.flusher.run())
        assert await partition.commit(append(partition)) is ErrorCode.NONE
        codes = []
        partition.when_committed(append_large(world, partition), codes.append)
        _, gate = await world.writer.next(1)
        partition.when_committed(append_large(world, partition), codes.append)
        gate.set_exception(StorageError("the disk is full"))
        await until(lambda: len(codes) >= 2)
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert (partition.is_offline, partition.rules.high_watermark, partition.log.log_end_offset) == (True, 1, 1)
        assert partition.log.read(0, 9999, 1).end_offset == 1
        with pytest.raises(StorageError):
            append(partition)
        other.when_committed(append_large(world, other), codes.append)
        _, gate = await world.writer.next(2)
        gate.set_result(None)
        await until(lambda: len(codes) >= 3)
        assert (codes[-1], world.writer.calls[2:]) == (ErrorCode.NONE, [])
        await world.tasks.close()

    run(work())


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_partition_that_goes_while_it_is_written(is_gone):
    async def work():
        world = World(policy="os")
        partition = world.partition("a")
        world.tasks.start(world.flusher.run())
        codes = []
        partition.when_committed(append_large(world, partition), codes.append)
        _, gate = await world.writer.next(1)
        partition.go_away() if is_gone else partition.go_offline("damaged")
        why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else ErrorCode.KAFKA_STORAGE_ERROR
        partition.when_committed(1, codes.append)
        await until(lambda: len(codes) == 2)
        assert codes == [why, why]
        gate.set_result(None)
        await asyncio.sleep(0.01)
        assert partition.rules.high_watermark == 0
        await world.tasks.close()

    run(work())


@pytest.mark.parametrize("policy", ["os", "interval"])
def test_a_stop_while_it_is_written_loses_nothing(policy):
    async def work():
        world = World(policy=policy)
        partition = world.partition("a")
        world.tasks.start(world.flusher.run())
        codes = []
        partition.when_committed(append_large(world, partition), codes.append)
        await world.writer.next(1)
        partition.when_committed(append_large(world, partition), codes.append)
        await world.tasks.close()
        stop = asyncio.ensure_future(world.flusher.sync_all())
        _, gate = await world.syncer.next(1)
        gate.set_result(None)
        await stop
        assert codes == [ErrorCode.NONE] * 2
        assert len(content(world, "a")) > 2 * LARGE

    run(work())
