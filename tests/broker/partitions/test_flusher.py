"""Group commit: what is synced when, what waits for it, and what a failed sync does. Files and syncer are in memory."""

import asyncio

import pytest
from evidence.world.broker import run, until
from evidence.world.files import SimFiles

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.partitions.flusher import Flusher
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.topic_configs import settings
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.tasks import Tasks
from oncelog.log.config import LogConfig
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
        self.syncer = ManualSyncer()
        self.flusher = Flusher(self.syncer, policy=policy, interval_ms=1)
        self.files = SimFiles()
        self.tasks = Tasks()

    def partition(self, name):
        rules = Partition()
        self.files.make_directory(f"/d/{name}")
        log = recover(self.files, f"/d/{name}", LogConfig(), rules).log
        rules.recovered(log_start_offset=0, log_end_offset=0)
        chosen = settings({}, BrokerConfig().topic_default)
        return LocalPartition(TopicPartition(name, 0), bytes(16), log, rules, chosen, self.flusher)


def append(partition):
    batch = RecordBatch(build_batch([(0, None, b"v", ())]))
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
