"""What simulated clusters have found, each as the shortest case that shows it. The docstrings name the first seed."""

from __future__ import annotations

import asyncio

import pytest

from evidence.simulator.checkers.recovery import hidden_by
from evidence.simulator.cluster import ADDRESS, Cluster
from evidence.simulator.faults import FaultOptions
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.files import Fault, Keep
from evidence.world.loop import Process, SimLoop, run_simulated
from evidence.world.partition_log import DATA, DIRECTORY, World
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.errors import KafkaError, StorageError
from oncelog.log.checkpoint_files import RECOVERY_POINTS, write_offsets
from oncelog.types import AbortedTransaction, TopicPartition


def test_a_new_data_directory_survives_a_power_cut() -> None:
    """default 1: the name of the data directory itself was never synced, so all of it could go."""

    async def main(loop: SimLoop) -> int:
        cluster = Cluster(loop, "new directory", FaultOptions())
        assert await cluster.start_broker()
        process = Process(loop, "client")

        async def produce() -> None:
            host = sim_host(process, cluster.network, Disk(0), 0)
            async with Producer(host=host, bootstrap_servers=ADDRESS) as producer:
                await producer.send_and_wait("a", b"1", partition=0)

        await process.start(produce())
        cluster.end_broker(Keep.NONE)
        assert await cluster.start_broker()
        assert cluster.broker is not None
        partition = cluster.broker.partitions.get(TopicPartition("a", 0))
        assert partition is not None
        return partition.log_end_offset

    assert run_simulated(1, main) == 1


def test_a_torn_transaction_index_above_the_recovery_point_is_rebuilt() -> None:
    """default 25: in the last segment it was taken for damage, and the partition stayed offline."""
    world = World()
    for _ in range(3):
        world.append(producer_id=7)
        world.mark(7, commit=False)
        if world.log.log_end_offset == 2:
            world.sync()
            world.log.close()
            write_offsets(world.files, DATA, RECOVERY_POINTS, {TopicPartition("t", 0): 2})
            world.open()
    world.files.open(f"{DIRECTORY}/{0:020d}.txnindex").write_at(34, bytes(34))
    world.files.kill()
    world.open()
    assert [entry.first_offset for entry in world.log.aborted_between(0, 6)] == [0, 2, 4]


def test_what_a_failed_sync_left_in_the_page_cache_is_written_anew() -> None:
    """default 41: a restarted process read it, let others read it, and the next power cut took it back."""
    world = World()
    world.append()
    world.files.fail_at(1, Fault.SYNC_ERROR)
    with pytest.raises(StorageError):
        world.sync()
    world.files.kill()
    world.open()
    assert world.log.log_end_offset == 1
    world.files.crash(Keep.NONE)
    world.open()
    assert world.log.log_end_offset == 1
    assert "sync-failed" not in world.files.list(DIRECTORY)


def test_zeros_in_a_transaction_index_are_no_entry() -> None:
    """disk 1073: a first entry that never reached the disk read as "producer 0 aborted at offset 0", and hid commits."""
    world = World()
    world.append(producer_id=0)
    world.mark(0, commit=True)
    world.sync()
    world.log.close()
    write_offsets(world.files, DATA, RECOVERY_POINTS, {TopicPartition("t", 0): 2})
    world.open()
    world.append(producer_id=7)
    world.mark(7, commit=False)
    world.files.open(f"{DIRECTORY}/{0:020d}.txnindex").write_at(0, bytes(34))
    world.files.kill()
    world.open()
    assert [(entry.producer_id, entry.first_offset) for entry in world.log.aborted_between(0, 4)] == [(7, 2)]


def test_a_partition_may_be_given_away_before_its_fetch_has_begun() -> None:
    """groups 115: the fetch met a position that pointed nowhere any more, and the consumer was broken for good."""

    async def main(loop: SimLoop) -> int:
        cluster = Cluster(loop, "given away", FaultOptions())
        assert await cluster.start_broker()
        process = Process(loop, "client")

        async def read() -> int:
            host, a = sim_host(process, cluster.network, Disk(0), 0), TopicPartition("a", 0)
            async with Producer(host=host, bootstrap_servers=ADDRESS) as producer:
                await producer.send_and_wait("a", b"1", partition=0)
            read = 0
            async with Consumer(host=host, bootstrap_servers=ADDRESS, auto_offset_reset="earliest") as consumer:
                for steps in range(20):
                    consumer.assign([a])
                    await consumer.position(a)
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    consumer.assign(())
                    await consumer.poll(0)
                consumer.assign([a])
                for _ in range(3):
                    read += len(await consumer.poll(1000))
            return read

        task: asyncio.Task[int] = process.start(read())
        return await task

    assert run_simulated(1, main) == 1


def test_two_checkpoints_at_a_time_do_not_take_one_anothers_file() -> None:
    """groups 325: housekeeping and the cleaner wrote the same file aside; who came second failed, and partitions that
    were created meanwhile went offline for it. On real machines the two could have mixed what they wrote."""

    async def main(loop: SimLoop) -> list[bool | BaseException]:
        cluster = Cluster(loop, "checkpoints", FaultOptions(has_cleaner=True))
        assert await cluster.start_broker()
        broker, process = cluster.broker, cluster.broker_process
        assert broker is not None
        assert process is not None

        async def checkpoint() -> list[bool | BaseException]:
            is_stored: list[bool | BaseException] = []
            for name in ("a", "b", "c", "d"):
                assert await broker.topics.create_automatically(name) is not None
                assert broker.partitions.get(TopicPartition(name, 0)) is not None
                many = [broker.partitions.checkpoint_aside() for _ in range(3)]
                is_stored += await asyncio.gather(*many, return_exceptions=True)
            return is_stored

        task: asyncio.Task[list[bool | BaseException]] = process.start(checkpoint())
        return await task

    assert set(run_simulated(1, main)) == {True}


@pytest.mark.parametrize("seed", range(8))
def test_a_commit_of_the_consumer_itself_does_not_overtake_a_newer_one(seed: int) -> None:
    """groups 1098: the periodic commit had its positions and had not begun when partitions were given back; what was
    stored for them then was overwritten by it."""

    async def main(loop: SimLoop) -> list[tuple[int, int]]:
        cluster = Cluster(loop, f"overtaken {seed}", FaultOptions())
        assert await cluster.start_broker()
        process = Process(loop, "client")
        host, a = sim_host(process, cluster.network, Disk(0), 0), TopicPartition("a", 0)

        async def work() -> list[tuple[int, int]]:
            stored = []
            async with Producer(host=host, bootstrap_servers=ADDRESS) as producer:
                for _ in range(20):
                    await producer.send_and_wait("a", b"1", partition=0)
            async with Consumer(
                host=host,
                bootstrap_servers=ADDRESS,
                group_id="g",
                auto_offset_reset="earliest",
                max_poll_records=1,
                auto_commit_interval_ms=1,
            ) as consumer:
                consumer.assign([a])
                while await consumer.position(a) < 20:
                    await consumer.poll(100)  # the periodic commit of what was polled before begins here
                    await consumer.commit()
                    kept = (await consumer.committed([a]))[a]
                    stored.append((await consumer.position(a), kept.offset if kept is not None else 0))
            return stored

        task: asyncio.Task[list[tuple[int, int]]] = process.start(work())
        return await task

    assert all(position == kept for position, kept in run_simulated(seed, main))


def test_a_member_that_left_for_its_silence_commits_nothing_unfenced() -> None:
    """groups 8: a member that was stopped for longer than max_poll_interval_ms, and had left, sent its positions with no
    generation at all. Nothing fenced them, so what another had copied meanwhile was copied twice."""

    async def main(loop: SimLoop) -> list[str]:
        cluster = Cluster(loop, "silent", FaultOptions())
        assert await cluster.start_broker()
        process = Process(loop, "client")
        host = sim_host(process, cluster.network, Disk(0), 0)

        async def work() -> list[str]:
            met = []
            settings = {"host": host, "bootstrap_servers": ADDRESS}
            protocols = {"classic": {"session_timeout_ms": 1500, "heartbeat_interval_ms": 300}, "consumer": {}}
            async with Producer(**settings, transactional_id="copy") as producer:
                for protocol, more in protocols.items():
                    limits = {**more, "max_poll_interval_ms": 1000, "enable_auto_commit": False}
                    async with Consumer(
                        "a", **settings, group_id=protocol, group_protocol=protocol, **limits
                    ) as consumer:
                        while not consumer.assignment():
                            await consumer.poll(100)
                        await asyncio.sleep(5)
                        producer.begin_transaction()
                        positions = {TopicPartition("a", 0): 1}
                        try:
                            await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
                        except KafkaError as error:
                            met.append(f"{protocol}: {type(error).__name__}")
                        await producer.abort_transaction()
            return met

        task: asyncio.Task[list[str]] = process.start(work())
        return await task

    met = run_simulated(1, main)
    assert [each.partition(":")[0] for each in met] == ["classic", "consumer"], met


def test_what_an_aborted_entry_hides_is_compared_and_not_the_entry() -> None:
    """compaction 546: the cleaner keeps the entry of a marker whose records it removed; a replay of what is left has none."""
    world = World()
    world.append(producer_id=7)
    world.append(producer_id=7)
    world.mark(7, commit=False)
    (entry,) = world.log.aborted_between(0, 3)
    assert hidden_by(world.log, entry) == (7, 2, (0, 1))
    assert hidden_by(world.log, AbortedTransaction(7, 1, 2, 3)) == (7, 2, (1,)), "an entry that begins too late shows"
    assert hidden_by(world.log, AbortedTransaction(8, 0, 2, 3)) == (8, 2, ())
