"""Large segments whose indexes lie are read whole beside the loop: others are served meanwhile, and whoever waits is woken."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from array import array

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, keys, run, until, visible

from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.host import real_host
from oncelog.host.worker import ThreadWorker
from oncelog.log import index_mending
from oncelog.log.segment import Segment
from oncelog.types import TopicPartition
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.share.share_world import Reader, acquired, beat, configure, topic_id_of

E = ErrorCode
T0 = TopicPartition("t", 0)
OF_ALL = {"oncelog.log.index_mending.AT_ONCE_SIZE_BYTES", "oncelog.broker.partitions.index_mending.AT_ONCE_SIZE_BYTES"}


class HeldWorker(ThreadWorker):
    """The real one; work waits for `opened`, and how much runs at once is counted."""

    def __init__(self):
        self.opened, self.begun_count, self.running, self.most = threading.Event(), 0, 0, 0

    async def run(self, work, **more):
        self.begun_count += 1
        self.running += 1
        self.most = max(self.most, self.running)

        def held(pace):
            while not self.opened.wait(0.001):
                pace(0)
            return work(pace)

        try:
            return await super().run(held, **more)
        finally:
            self.running -= 1


@pytest.fixture(autouse=True)
def each_is_large(monkeypatch):
    for name in OF_ALL:
        monkeypatch.setattr(name, 0)


def late(timestamp):
    """ListOffsets of a record by its time; -3: of the latest."""
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def found(reply):
    (partition,) = reply.topics[0].partitions
    return partition.error_code, partition.offset


async def _later(broker):
    now_ms = broker.host.clock.now_ms()
    await until(lambda: broker.host.clock.now_ms() > now_ms)


async def rolled(directory, count=2, **config):
    """Two rolled segments, whose time indexes lack their ends, and one in use. The time of their last records."""
    async with broker_and_client(directory) as (broker, client):
        await client.create("t", **config)
        for _ in range(count):
            await client.produce("t", "a", "b")
            broker.partitions.existing(T0).log.roll()
            await _later(broker)
        await client.produce("t", "c")
        now_ms = broker.host.clock.now_ms()
    for index in sorted((directory / "t-0").glob("*.timeindex"))[:count]:
        assert index.stat().st_size
        index.write_bytes(b"")
    return now_ms


async def misled(directory, how, count=2):
    """Rolled segments of four batches each, and one in use; what `how` does to the offset indexes of the former."""
    async with broker_and_client(directory) as (broker, client):
        await client.create("t", index_interval_bytes="0")
        for _ in range(count):
            for _ in range(4):
                await client.produce("t", "a", "b")
                await _later(broker)  # each batch has an entry in the time index
            broker.partitions.existing(T0).log.roll()
        await client.produce("t", "c")
    for index in sorted((directory / "t-0").glob("*.index"))[:count]:
        data = array("i", index.read_bytes())
        data.byteswap()
        assert len(data) == 6
        if how == "missing":
            index.unlink()
        else:
            data = array("i", [each + number % 2 for number, each in enumerate(data)])  # each position one byte later
            data.byteswap()
            index.write_bytes(data.tobytes())


MISLED = pytest.mark.parametrize("how", ["missing", "lying"])


@MISLED
@pytest.mark.parametrize("min_bytes", [1, 10])
def test_a_fetch_that_meets_a_wrong_offset_index_holds_up_nobody_else(tmp_path, how, min_bytes, caplog):
    async def work():
        await misled(tmp_path, how)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            asking.send(fetch_request("t", 5, False).replace(min_bytes=min_bytes, max_wait_ms=1_000), 12)
            await until(lambda: worker.running == 1)
            assert (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            assert await other.read("t", offset=16) == ["c"]
            worker.opened.set()
            _, reply = await asking.receive()
            assert visible(reply.responses[0].partitions[0])[-2:] == ["a", "b"]
            assert await other.read("t", offset=5) == visible(reply.responses[0].partitions[0])
            assert broker.metrics.topic("t").bytes_out > 0
            assert worker.begun_count == 1, "nothing is read again"
            for each in (asking, other):
                each.close()
        assert caplog.text.count("built anew from the log") == 1

    run(work())


@MISLED
def test_a_lookup_by_time_that_meets_a_wrong_offset_index_holds_up_nobody_else(tmp_path, how):
    async def work():
        await misled(tmp_path, how)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            asking.send(late(2**62))
            await until(lambda: worker.running == 1)
            assert (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            worker.opened.set()
            assert found((await asking.receive())[1]) == (E.NONE, -1)
            assert worker.begun_count == 2
            for each in (asking, other):
                each.close()

    run(work())


def test_a_fetch_is_told_where_the_disk_fails(tmp_path, monkeypatch):
    async def work():
        await misled(tmp_path, "lying")
        worker = HeldWorker()

        def failing(*_):
            raise StorageError("the disk refuses")

        monkeypatch.setattr(Segment, "build_indexes", failing)
        async with held_broker(tmp_path, worker) as broker:
            client = await Client.connect(broker)
            worker.opened.set()
            for _ in range(2):  # also one that finds it offline
                reply = await client.call(fetch_request("t", 5, False), 12)
                assert reply.responses[0].partitions[0].error_code == E.KAFKA_STORAGE_ERROR
            assert worker.begun_count == 1
            client.close()

    run(work())


def test_a_fetch_is_answered_where_the_topic_goes_meanwhile(tmp_path):
    async def work():
        await misled(tmp_path, "missing")
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            asking.send(fetch_request("t", 5, False), 12)
            await until(lambda: worker.running == 1)
            deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000)
            assert (await other.call(deleted)).responses[0].error_code == E.NONE
            worker.opened.set()
            _, reply = await asking.receive()
            assert reply.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            for each in (asking, other):
                each.close()

    run(work())


def test_the_last_segment_is_read_at_once(tmp_path, caplog):
    """What is appended to it would be missing in indexes that another thread builds."""

    async def work():
        await misled(tmp_path, "lying", count=0)
        index = tmp_path / "t-0" / f"{0:020d}.index"
        assert not index.read_bytes()
        async with broker_and_client(tmp_path) as (_, client):
            for _ in range(4):
                await client.produce("t", "d")
        data = array("i", index.read_bytes())
        data.byteswap()
        data = array("i", [each + number % 2 for number, each in enumerate(data)])
        data.byteswap()
        index.write_bytes(data.tobytes())
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            client = await Client.connect(broker)
            assert await client.read("t", offset=3) == ["d", "d"]
            assert "built anew from the log" in caplog.text
            assert worker.begun_count == 0
            client.close()

    run(work())


def held_broker(directory, worker):
    host = dataclasses.replace(real_host(), worker=worker)
    return Broker(str(directory), keys({}), host)


@pytest.mark.parametrize("timestamp", [-3, 2**62])
def test_a_lookup_by_time_holds_up_nobody_else(tmp_path, timestamp, caplog):
    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            asking.send(late(timestamp))
            await until(lambda: worker.running == 1)
            assert (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            assert await other.read("t", offset=2) == ["a", "b"]
            worker.opened.set()
            _, reply = await asking.receive()
            assert found(reply) == (E.NONE, 4 if timestamp == -3 else -1)
            assert worker.begun_count == 2
            assert found(await other.call(late(timestamp))) == found(reply)
            assert worker.begun_count == 2, "nothing is read again"
            for each in (asking, other):
                each.close()
        assert caplog.text.count("built anew from the log") == 2

    run(work())


def test_one_segment_is_read_at_a_time_and_who_goes_away_ends_its_work(tmp_path):
    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            clients = [await Client.connect(broker) for _ in range(3)]
            for each in clients:
                each.send(late(-3))
            await until(lambda: len(broker.server.tasks) == 3 and worker.running == 1)
            clients[0].close()
            await until(lambda: worker.begun_count == 2)
            worker.opened.set()
            for each in clients[1:]:
                assert found((await each.receive())[1]) == (E.NONE, 4)
                each.close()
            assert (worker.begun_count, worker.most) == (3, 1)

    run(work())


def test_a_disk_that_fails_is_told_to_all_who_wait(tmp_path, monkeypatch):
    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()

        def failing(*_):
            raise StorageError("the disk refuses")

        monkeypatch.setattr(Segment, "build_indexes", failing)
        async with held_broker(tmp_path, worker) as broker:
            clients = [await Client.connect(broker) for _ in range(2)]
            for each in clients:
                each.send(late(-3))
            await until(lambda: len(broker.server.tasks) == 2 and worker.running == 1)
            worker.opened.set()
            for each in clients:
                assert found((await each.receive())[1])[0] == E.KAFKA_STORAGE_ERROR
                each.close()
            assert broker.partitions.existing(T0).is_offline

    run(work())


def test_a_deletion_ends_the_wait(tmp_path):
    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            asking.send(late(-3))
            await until(lambda: worker.running == 1)
            deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000)
            assert (await other.call(deleted)).responses[0].error_code == E.NONE
            worker.opened.set()
            assert found((await asking.receive())[1])[0] == E.UNKNOWN_TOPIC_OR_PARTITION
            for each in (asking, other):
                each.close()

    run(work())


def test_a_stop_does_not_wait_for_the_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("oncelog.broker.broker.DRAIN_TIMEOUT_S", 0.05)

    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking = await Client.connect(broker)
            asking.send(late(-3))
            await until(lambda: worker.running == 1)
        assert worker.running == 0
        asking.close()

    run(work())


def test_retention_looks_beside_the_loop(tmp_path):
    async def work():
        now_ms = await rolled(tmp_path, retention_ms="1000", file_delete_delay_ms="0")
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            await eventually(lambda: asyncio.sleep(0, broker.partitions.existing(T0) is not None))
            starts = broker.partitions.log_starts
            looking = broker.server.tasks.start(starts.apply_retention(broker.partitions, now_ms + 100_000))
            client = await Client.connect(broker)
            await until(lambda: worker.running == 1)
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            worker.opened.set()
            assert await looking == 3
            client.close()

    run(work())


def test_a_small_segment_is_read_at_once(tmp_path, monkeypatch):
    for name in OF_ALL:
        monkeypatch.setattr(name, 1 << 20)

    async def work():
        await rolled(tmp_path)
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            client = await Client.connect(broker)
            assert found(await client.call(late(-3))) == (E.NONE, 4)
            assert worker.begun_count == 0
            client.close()

    run(work())
    assert index_mending.AT_ONCE_SIZE_BYTES == 1 << 20


@pytest.mark.parametrize("wait_ms", [0, 60_000])
@pytest.mark.parametrize("reset", ["earliest", "by_duration:PT1H"])
def test_a_share_group_that_meets_a_wrong_index_holds_up_nobody_else(tmp_path, reset, wait_ms, caplog):
    """Where it begins, if that is a time, and when it reads."""

    async def work():
        await misled(tmp_path, "missing")
        worker = HeldWorker()
        async with held_broker(tmp_path, worker) as broker:
            asking, other = await Client.connect(broker), await Client.connect(broker)
            await configure(asking, auto_offset_reset=reset)
            assert (await beat(asking, "m", 0, "t")).error_code == E.NONE
            asking.send(Reader(asking, await topic_id_of(asking, "t")).request(wait_ms=wait_ms))
            await until(lambda: worker.running == 1)
            assert (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            worker.opened.set()
            assert acquired((await asking.receive())[1])[0][0] == 0
            for each in (asking, other):
                each.close()
        assert caplog.text.count("built anew from the log") == worker.begun_count

    run(work())
