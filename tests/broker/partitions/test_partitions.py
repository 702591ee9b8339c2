"""What a start knows of each partition, and hands to its recovery."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from evidence.world.broker import broker_and_client

from oncelog import Producer
from oncelog.broker.broker import Broker
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.errors import ErrorCode
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    offsets_from_bytes,
)
from oncelog.log.producer_windows import PRODUCER_WINDOWS
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.metrics.test_metrics import values


def test_damage_below_the_stored_recovery_point_is_no_torn_tail(tmp_path: Path) -> None:
    """After a crash recovery cuts what is bad above the recovery point. Below it was synced: nothing of it may go."""

    async def written() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for value in ("first", "second", "third"):
                await client.produce("t", value)

    async def third() -> list[str]:
        async with broker_and_client(tmp_path) as (_, client):
            found: list[str] = await client.read("t", offset=2)
            return found

    asyncio.run(written())
    clean = list(tmp_path.rglob(CLEAN_SHUTDOWN))
    assert len(clean) == 1, "the stop was orderly, and the recovery point is stored"
    clean[0].unlink()
    log = next(path for path in tmp_path.rglob("*.log") if path.parent.name == "t-0")
    data = bytearray(log.read_bytes())
    data[data.index(b"second")] ^= 1
    log.write_bytes(data)
    assert asyncio.run(third()) == ["third"]
    assert log.read_bytes() == data
    assert not list(log.parent.glob("*.torn"))


def closed(directory: Path, *topics: str, partitions: int = 3) -> None:
    """Leave a directory behind that was cleanly closed: a record in each partition, its value the topic's name."""

    async def work() -> None:
        async with broker_and_client(directory) as (_, client):
            for topic in topics:
                await client.create(topic, partitions)
                for partition in range(partitions):
                    await client.produce(topic, topic, partition=partition)

    asyncio.run(work())


def unopened(broker: Broker) -> set[str]:
    return {str(name) for name in broker.partitions._unopened}


@pytest.fixture(autouse=True)
def opens_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_rest(_: Partitions) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Partitions, "open_rest", open_rest)


def test_what_was_closed_cleanly_is_opened_when_it_is_needed(tmp_path: Path) -> None:
    closed(tmp_path, "a", "b")

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            every = {f"{topic}-{partition}" for topic in "ab" for partition in range(3)}
            assert unopened(broker) == every
            assert len(broker.partitions) == len(every)
            assert await client.read("a") == ["a"]
            assert unopened(broker) == every - {"a-0"}
            assert (await client.produce("b", "more", partition=1)).base_offset == 1
            assert unopened(broker) == every - {"a-0", "b-1"}
            assert [str(each.name) for each in broker.partitions.of_topic("b")] == ["b-1", "b-0", "b-2"]

    asyncio.run(work())


def test_what_was_not_needed_keeps_its_place_in_every_checkpoint(tmp_path: Path) -> None:
    closed(tmp_path, "a")
    names = (RECOVERY_POINTS, HIGH_WATERMARKS, PRODUCER_WINDOWS)
    before = {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()}
    assert RECOVERY_POINTS in before

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, _):
            await broker.partitions.checkpoint_aside()
            assert len(unopened(broker)) == 3

    for _ in range(2):
        asyncio.run(work())
        assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_retry_is_recognised_though_nobody_needed_its_partition_in_between(tmp_path: Path, is_clean: bool) -> None:
    """What is known of the producer's last batches beyond the snapshot goes from stop to stop."""

    async def written() -> tuple[int, int]:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer: tuple[int, int] = await client.init()
            for sequence in range(3):
                await client.produce("t", str(sequence), producer=producer, sequence=sequence)
            return producer

    async def nobody() -> None:
        async with broker_and_client(tmp_path):
            if not is_clean:
                shutil.copytree(tmp_path, tmp_path.parent / "killed")

    async def again(directory: Path, producer: tuple[int, int]) -> None:
        async with broker_and_client(directory) as (_, client):
            for sequence in range(3):
                answer = await client.produce("t", str(sequence), producer=producer, sequence=sequence)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, sequence)

    producer = asyncio.run(written())
    asyncio.run(nobody())
    asyncio.run(again(tmp_path if is_clean else tmp_path.parent / "killed", producer))


def test_a_retry_is_recognised_after_starts_that_read_the_same_batches_again(tmp_path: Path) -> None:
    """A start of little that is new writes no snapshot: what is known beyond the older one is needed by the next start, too."""

    async def life(directory: Path, producer: tuple[int, int], sequences: range, kept: Path | None = None) -> list[int]:
        async with broker_and_client(directory) as (_, client):
            answers = [await client.produce("t", str(each), producer=producer, sequence=each) for each in sequences]
            assert {each.error_code for each in answers} <= {ErrorCode.NONE}
            if kept is not None:
                shutil.copytree(directory, kept)
            return [each.base_offset for each in answers]

    async def begun() -> tuple[int, int]:
        async with broker_and_client(tmp_path / "0") as (_, client):
            await client.create("t")
            producer: tuple[int, int] = await client.init()
            return producer

    producer = asyncio.run(begun())
    asyncio.run(life(tmp_path / "0", producer, range(3)))
    asyncio.run(life(tmp_path / "0", producer, range(3, 4), tmp_path / "1"))
    for killed in (1, 2, 3):
        asyncio.run(life(tmp_path / str(killed), producer, range(0), tmp_path / str(killed + 1)))
    assert not (tmp_path / "4" / "t-0" / f"{4:020d}.snapshot").exists()
    assert asyncio.run(life(tmp_path / "4", producer, range(4))) == [0, 1, 2, 3]


def test_a_damaged_one_is_found_when_it_is_needed_and_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed(tmp_path, "a")
    log = tmp_path / "a-1" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            assert (await client.produce("a", "x", partition=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "partition a-1 is damaged and stays offline" in caplog.text
            assert (await client.produce("a", "x", partition=2)).error_code == ErrorCode.NONE
            assert broker.partitions.is_offline(TopicPartition("a", 1))
            assert broker.partitions.existing(TopicPartition("a", 1)) is None
        assert not (tmp_path / CLEAN_SHUTDOWN).exists(), "the next start has to look at it"

    asyncio.run(work())
    points = offsets_from_bytes((tmp_path / RECOVERY_POINTS).read_bytes())
    assert points.pop(CLUSTER_METADATA) > 0, "so that its end is not taken for a torn one"
    assert points == {TopicPartition("a", 0): 1, TopicPartition("a", 1): 1, TopicPartition("a", 2): 2}


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_a_start_finds_damaged_or_gone_is_counted_as_offline_by_the_metric_that_rings(
    tmp_path: Path, *, is_clean: bool
) -> None:
    closed(tmp_path, "a")
    (tmp_path / "a-1" / f"{0:020d}.log").unlink()
    shutil.rmtree(tmp_path / "a-2")
    if not is_clean:
        (tmp_path / CLEAN_SHUTDOWN).unlink()

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            broker.partitions.of_topic("a")  # all that is left to be opened
            assert values(broker.metrics, "partitions_offline") == {(): 2}
            sound = broker.partitions.get(TopicPartition("a", 0))
            assert sound is not None
            sound.go_offline("its disk is gone")
            assert values(broker.metrics, "partitions_offline") == {(): 3}
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000), 6)
            assert values(broker.metrics, "partitions_offline") == {(): 0}

    asyncio.run(work())


def test_a_topic_that_is_deleted_before_it_was_needed_comes_back_empty_and_as_configured(tmp_path: Path) -> None:
    closed(tmp_path, "a", "b")

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000), 6)
            assert unopened(broker) == {"b-0", "b-1", "b-2"}
            await client.create("a", 3)
            assert await client.read("a") == []
            change = AlterableConfig(name="retention.ms", config_operation=0, value="12345678")
            resource = AlterConfigsResource(resource_type=2, resource_name="b", configs=[change])
            await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            (first, *_) = broker.partitions.of_topic("b")
            assert first.settings.retention_ms == 12345678

    asyncio.run(work())


def test_a_transaction_that_is_decided_while_the_broker_closes_is_completed_below_every_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its markers are committed by the last commits; the Complete record that follows them must not lie behind a clean end."""
    closing, syncing, ends, states = Partitions.close, Partitions._sync_together, {}, []

    async def work() -> None:
        async with Broker(str(tmp_path)) as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="p")
            await producer.start()
            producer.begin_transaction()
            await producer.send("t", b"x", partition=0)
            await producer.flush()
            parts = broker._parts
            assert parts is not None
            transactions, identity = parts.node.transactions, producer._manager.identity

            async def close(partitions: Partitions) -> bool:
                coordinator = await transactions.coordinator_of("p")
                message = EndTxnRequest(transactional_id="p", producer_id=identity[0], producer_epoch=identity[1])
                coordinator.perform(coordinator.machine.end_txn(message, 5, 0))

                async def sync_together(self: Partitions, some: list[LocalPartition]) -> None:
                    states.append(coordinator.machine.get("p").state.name)
                    await syncing(self, some)

                monkeypatch.setattr(Partitions, "_sync_together", sync_together)
                is_clean = await closing(partitions)
                ends[coordinator.partition.name] = coordinator.partition.log_end_offset
                return is_clean

            monkeypatch.setattr(Partitions, "close", close)
        await producer.stop(timeout_ms=0)

    asyncio.run(work())
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    points = offsets_from_bytes((tmp_path / RECOVERY_POINTS).read_bytes())
    assert {name: points[name] for name in ends} == ends
    assert states == ["COMPLETE_ABORT"]
