"""What is good before a batch or record that cannot be read is handed out, then it is said where that lies; positions never pass
what the application got. Apache Kafka stores batches whose inside is wrong (differences-from-kafka.md, P18)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import google_crc32c
import pytest
from evidence.world.broker import run
from evidence.world.client import BOOTSTRAP, ScriptedBroker
from evidence.world.client import run as run_scripted

from oncelog import Admin, Broker, Consumer, Producer, TopicPartition, errors, sync
from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.wire import arrow_records
from oncelog.wire.compression import Codec
from oncelog.wire.record_batch import RecordBatch, build_batch, build_end_txn_marker

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODYS_CODEC = 6


def with_checksum(raw: bytearray) -> bytearray:
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    return raw


def too_long(**more: Any) -> bytearray:
    """Its record says that it is 63 bytes long; the checksum is right."""
    raw = bytearray(build_batch([(1, b"k", b"bad", ())], **more))
    raw[61] = 0x7E
    return with_checksum(raw)


def not_compressed(**more: Any) -> bytearray:
    raw = bytearray(build_batch([(1, b"k", bytes(1000), ())], codec=Codec.GZIP, **more))
    raw[61:] = bytes(len(raw) - 61)
    return with_checksum(raw)


def of_no_codec(**more: Any) -> bytearray:
    raw = bytearray(build_batch([(1, b"k", b"bad", ())], **more))
    raw[22] |= NOBODYS_CODEC
    return with_checksum(raw)


async def by_poll(consumer: Consumer, **more: Any) -> list[Any]:
    return [record.value for record in await consumer.poll(2_000, **more)]


async def by_poll_arrow(consumer: Consumer, **more: Any) -> list[Any]:
    return (await consumer.poll_arrow(timeout_ms=2_000, **more)).column("value").to_pylist()


Poll = Callable[..., Awaitable[list[Any]]]
each_way = pytest.mark.parametrize("poll", [by_poll, by_poll_arrow])
each_order = pytest.mark.parametrize("order", ["offset", "transaction"])


class World:
    """A broker with topic `t` of two partitions, into which batches are put as Apache Kafka would store them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.servers = {"bootstrap_servers": broker.bootstrap_servers}

    def put(self, raw: bytes | bytearray, where: TopicPartition = ZERO) -> None:
        partition = self._broker.partitions.get(where)
        partition.append(RecordBatch(raw), now_ms=self._broker.host.clock.now_ms())

    async def send(self, value: bytes, where: TopicPartition = ZERO) -> None:
        """A good batch; what was put before it can be read then, too."""
        async with Producer(**self.servers) as producer:
            await producer.send_and_wait("t", value, partition=where.partition)

    def consumer(self, **more: Any) -> Consumer:
        return Consumer(**self.servers, auto_offset_reset="earliest", isolation_level="read_committed", **more)


def served(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Broker() as broker:
            world = World(broker)
            async with Admin(**world.servers) as admin:
                await admin.create_topics({"t": 2})
            await work(world)

    run(main())


async def refusal(poll: Poll, consumer: Consumer) -> tuple[TopicPartition | None, int | None]:
    with pytest.raises(errors.CorruptRecord) as raised:
        await poll(consumer)
    return raised.value.topic_partition, raised.value.offset


@each_way
@each_order
@pytest.mark.parametrize("bad", [too_long, not_compressed, of_no_codec])
def test_what_is_good_before_a_bad_batch_comes_first_and_it_can_be_passed(
    poll: Poll, order: str, bad: Callable[[], bytearray]
) -> None:
    async def work(world: World) -> None:
        await world.send(b"good-0")
        world.put(bad())
        await world.send(b"good-2")
        async with world.consumer(order=order) as consumer:
            consumer.assign([ZERO])
            assert await poll(consumer) == [b"good-0"]
            for _ in range(2):
                assert await refusal(poll, consumer) == (ZERO, 1)
                assert await consumer.position(ZERO) == 1
            consumer.seek(ZERO, 2)
            assert await poll(consumer) == [b"good-2"]

    served(work)


@each_way
@each_order
def test_what_is_good_before_a_damaged_marker_comes_first(poll: Poll, order: str) -> None:
    """It is met where a fetch's answer is taken apart, with the good ones before it."""

    async def work() -> None:
        broker = ScriptedBroker()
        for value in (b"good-0", b"good-1"):
            broker.append("t", 0, build_batch([(1, None, value, ())]))
        marker = build_end_txn_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1)
        marker[61] = 0x7E
        broker.append("t", 0, with_checksum(bytearray(marker)))
        broker.append("t", 0, build_batch([(1, None, b"good-3", ())]))
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "order": order}
        async with Consumer(bootstrap_servers=BOOTSTRAP, host=broker.host(), **options) as consumer:
            consumer.assign([ZERO])
            assert await poll(consumer) == [b"good-0", b"good-1"]
            for _ in range(2):
                assert await refusal(poll, consumer) == (ZERO, 2)
                assert await consumer.position(ZERO) == 2
            consumer.seek(ZERO, 3)
            assert await poll(consumer) == [b"good-3"]

    run_scripted(work)


@each_way
@each_order
def test_other_partitions_lose_nothing(poll: Poll, order: str) -> None:
    async def work(world: World) -> None:
        await world.send(b"one-0", ONE)
        world.put(too_long(), ZERO)
        await world.send(b"zero-1", ZERO)
        await world.send(b"one-1", ONE)
        async with world.consumer(order=order) as consumer:
            consumer.assign([ONE, ZERO])
            found = []
            while await consumer.position(ONE) < 2:
                found += await poll(consumer)
            assert found == [b"one-0", b"one-1"]
            assert await refusal(poll, consumer) == (ZERO, 0)
            assert consumer.current_positions()[ZERO].offset == 0
            consumer.seek(ZERO, 1)
            assert await poll(consumer) == [b"zero-1"]

    served(work)


@each_way
def test_a_group_stores_no_position_behind_what_was_handed_out(poll: Poll) -> None:
    async def work(world: World) -> None:
        await world.send(b"good-0")
        world.put(too_long())
        await world.send(b"good-2")
        async with world.consumer(group_id="g") as consumer:
            consumer.subscribe(["t"])
            found: list[Any] = []
            with pytest.raises(errors.CorruptRecord):
                while True:
                    found += await poll(consumer)
            assert found == [b"good-0"]
        async with world.consumer(group_id="g") as consumer:
            assert (await consumer.committed([ZERO]))[ZERO].offset == 1

    served(work)


@each_order
def test_rows_that_do_not_fit_into_one_column_come_with_the_next(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_records, "COLUMN_BYTES_MAX", 2_500)

    async def work(world: World) -> None:
        for number in range(5):
            await world.send(b"%d" % number * 1000)
        async with world.consumer(order=order) as consumer:
            consumer.assign([ZERO])
            found, sizes = [], []
            while len(found) < 5:
                rows = await by_poll_arrow(consumer)
                found += [value[:1] for value in rows]
                sizes.append(len(rows))
                assert await consumer.position(ZERO) == len(found)
            assert (found, max(sizes)) == ([b"0", b"1", b"2", b"3", b"4"], 2)

    served(work)


@each_order
def test_where_there_is_no_memory_for_the_rows_none_is_lost(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        await world.send(b"a")
        await world.send(b"b")
        async with world.consumer(order=order) as consumer:
            consumer.assign([ZERO])
            with monkeypatch.context() as patch:

                def no_memory(*_: object, **__: object) -> None:
                    raise MemoryError

                patch.setattr(arrow_records, "_record_batch", no_memory)
                with pytest.raises(MemoryError):
                    await by_poll_arrow(consumer, max_records=1)
                assert await consumer.position(ZERO) == 0
            assert await by_poll_arrow(consumer, max_records=1) == [b"a"]
            assert await by_poll_arrow(consumer) == [b"b"]

    served(work)


class GivesUp(BaseException):
    """As pytest.fail raises it, or sys.exit."""


@each_order
def test_an_end_that_a_deserializer_asks_for_loses_no_record(order: str) -> None:
    is_over = [True]

    def read(value: bytes) -> bytes:
        if value == b"b" and is_over[0]:
            raise GivesUp
        return value

    async def work(world: World) -> None:
        await world.send(b"a")
        await world.send(b"b")
        async with world.consumer(order=order, value_deserializer=read) as consumer:
            consumer.assign([ZERO])
            found: list[Any] = []
            with pytest.raises(GivesUp):
                while True:
                    found += await by_poll(consumer)
            is_over[0] = False
            while len(found) < 2:
                found += await by_poll(consumer)
            assert found == [b"a", b"b"]

    served(work)


@each_order
def test_what_an_interceptor_raises_loses_no_record(order: str) -> None:
    class Refuses(ConsumerInterceptor):
        is_over = False

        def on_consume(self, records: list[Any]) -> list[Any]:
            if not self.is_over:
                Refuses.is_over = True
                raise GivesUp
            return records

    async def work(world: World) -> None:
        await world.send(b"a")
        await world.send(b"b", ONE)
        async with world.consumer(order=order, interceptor_classes=[Refuses]) as consumer:
            consumer.assign([ZERO, ONE])
            found: list[Any] = []
            with pytest.raises(GivesUp):
                await by_poll(consumer)
            while len(found) < 2:
                found += await by_poll(consumer)
            assert sorted(found) == [b"a", b"b"]

    served(work)


@each_way
def test_a_poll_that_is_cancelled_loses_nothing(poll: Poll) -> None:
    async def work(world: World) -> None:
        async with world.consumer() as consumer:
            consumer.assign([ZERO])
            assert await consumer.position(ZERO) == 0
            for number in range(20):  # wherever it is when it is cancelled
                waiting = asyncio.create_task(poll(consumer))
                sent = asyncio.create_task(world.send(b"%d" % number))
                before = consumer.current_positions()[ZERO].offset
                for _ in range(number):
                    await asyncio.sleep(0)
                waiting.cancel()
                got = []
                try:
                    got = await waiting
                except asyncio.CancelledError:
                    assert consumer.current_positions()[ZERO].offset == before
                await sent
                while len(got) + before < number + 1:
                    got += await poll(consumer)
                assert got == [b"%d" % each for each in range(before, number + 1)]

    served(work)


@each_order
def test_without_async_it_is_the_same(order: str) -> None:
    def read(servers: dict[str, str], how: str) -> None:
        def got() -> list[Any]:
            if how == "poll":
                return [record.value for record in consumer.poll(2_000)]
            return consumer.poll_arrow(timeout_ms=2_000).column("value").to_pylist()

        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "order": order}
        with sync.Consumer(**servers, **options) as consumer:
            consumer.assign([ZERO])
            assert got() == [b"good-0"]
            with pytest.raises(errors.CorruptRecord) as raised:
                got()
            assert (raised.value.topic_partition, raised.value.offset) == (ZERO, 1)
            assert consumer.position(ZERO) == 1
            consumer.seek(ZERO, 2)
            assert got() == [b"good-2"]

    async def work(world: World) -> None:
        await world.send(b"good-0")
        world.put(too_long())
        await world.send(b"good-2")
        for how in ("poll", "poll_arrow"):
            await asyncio.to_thread(read, world.servers, how)

    served(work)


def test_an_end_that_a_deserializer_asks_for_loses_no_record_without_async() -> None:
    """What is at hand is decoded in the application's thread."""
    is_over = [True]

    def read(value: bytes) -> bytes:
        if value == b"4" and is_over[0]:
            raise GivesUp
        return value

    def polled(servers: dict[str, str]) -> None:
        with sync.Consumer(**servers, auto_offset_reset="earliest", value_deserializer=read) as consumer:
            consumer.assign([ZERO])
            found = [consumer.poll(2_000, 1)[0].value]
            with pytest.raises(GivesUp):
                while True:
                    found += [record.value for record in consumer.poll(2_000, 3)]
            is_over[0] = False
            while len(found) < 10:
                found += [record.value for record in consumer.poll(2_000)]
            assert found == [b"%d" % number for number in range(10)]

    async def work(world: World) -> None:
        world.put(build_batch([(1, None, b"%d" % number, ()) for number in range(10)]))
        await asyncio.to_thread(polled, world.servers)

    served(work)
