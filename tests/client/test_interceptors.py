"""Interceptors: what they see and change, in which order, and what becomes of what they raise."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Consumer, Producer, TopicPartition, errors
from oncelog.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from oncelog.errors import ErrorCode
from oncelog.types import OffsetAndMetadata
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.record_batch import build_batch

WHERE = TopicPartition("t", 0)


def producer(broker, *interceptors, **config):
    return Producer(
        host=broker.host(), bootstrap_servers=BOOTSTRAP, linger_ms=0, interceptor_classes=list(interceptors), **config
    )


def consumer(broker, *interceptors, **config):
    return Consumer(host=broker.host(), bootstrap_servers=BOOTSTRAP, interceptor_classes=interceptors, **config)


class Marks(ProducerInterceptor):
    """Adds a mark, keeps what was acknowledged."""

    def __init__(self, mark="m"):
        self.mark, self.acknowledged, self.is_closed = mark, [], False

    def on_send(self, record):
        return record._replace(value=record.value + self.mark)

    def on_acknowledgement(self, metadata, error):
        self.acknowledged.append((metadata.partition, metadata.offset, type(error)))

    def close(self):
        self.is_closed = True


def stored(broker):
    return [record.value for batch in broker.log["t", 0] for record in batch.records()]


def test_records_pass_in_order_before_the_serializer():
    async def work():
        broker, first, second = ScriptedBroker(), Marks("1"), Marks("2")
        async with producer(broker, first, second, value_serializer=str.encode) as p:
            for value in ("a", "b"):
                await p.send("t", value, partition=0)
            await p.flush()
            assert not first.is_closed
        assert stored(broker) == [b"a12", b"b12"]
        for each in (first, second):  # of two records of one batch, either may be told of first
            assert sorted(each.acknowledged, key=str) == [(0, 0, type(None)), (0, 1, type(None))]
        assert first.is_closed

    run(work)


def test_failures_are_told():
    async def work():
        broker, marks = ScriptedBroker(), Marks()
        broker.script(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        async with producer(broker, marks, value_serializer=str.encode) as p:
            with pytest.raises(errors.InvalidRecord):
                await p.send_and_wait("t", "a", partition=0)
            await asyncio.sleep(0.01)
        assert marks.acknowledged == [(0, -1, errors.InvalidRecord)]

    run(work)


class Raises(ProducerInterceptor):
    """Refuses to let anything pass."""

    def on_send(self, record):
        raise PermissionError(record.topic)


def test_what_on_send_raises_goes_to_the_caller():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, Raises) as p:  # a class is called
            with pytest.raises(PermissionError):
                await p.send("t", b"v")
        assert stored(broker) == []

    run(work)


class RaisesLater(ProducerInterceptor):
    """Raises when nobody waits."""

    def on_acknowledgement(self, metadata, error):
        raise ZeroDivisionError


def test_what_on_acknowledgement_raises_is_the_loops():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, RaisesLater()) as p:
            for n in range(2):
                await p.send_and_wait("t", b"%d" % n, partition=0)
        assert [type(each["exception"]) for each in loop.errors] == [ZeroDivisionError] * 2
        loop.errors.clear()
        assert len(stored(broker)) == 2

    run(work)


class Reads(ConsumerInterceptor):
    """Leaves out what has an odd offset; raises where told; keeps what was committed."""

    def __init__(self):
        self.raises, self.commits, self.is_closed = False, [], False

    def on_consume(self, records):
        if self.raises:
            raise LookupError
        return [record._replace(value=record.value.upper()) for record in records if record.offset % 2 == 0]

    def on_commit(self, offsets):
        self.commits.append(offsets)

    def close(self):
        self.is_closed = True


def put(broker, *values):
    for value in values:
        broker.append("t", 0, build_batch([(0, None, value, ())]))


async def values(consumer, timeout_ms=1000):
    return [record.value for record in await consumer.poll(timeout_ms)]


def test_records_are_changed_and_left_out():
    async def work():
        broker, reads = ScriptedBroker(), Reads()
        put(broker, b"a", b"b", b"c")
        async with consumer(broker, reads) as c:
            c.assign([WHERE])
            c.seek(WHERE, 0)
            assert await values(c) == [b"A", b"C"]
            assert await c.position(WHERE) == 3
            put(broker, b"d", b"e")
            assert (await anext(c)).value == b"E"
        assert reads.is_closed

    run(work)


def test_positions_stay_where_on_consume_raises():
    async def work():
        broker, reads = ScriptedBroker(), Reads()
        put(broker, b"a", b"b", b"c")
        async with consumer(broker, reads) as c:
            c.assign([WHERE])
            c.seek(WHERE, 0)
            reads.raises = True
            for _ in range(2):
                with pytest.raises(LookupError):
                    await c.poll()
            assert await c.position(WHERE) == 0
            reads.raises = False
            assert await values(c) == [b"A", b"C"]

    run(work)


class Adds(ConsumerInterceptor):
    """Makes two of one."""

    def on_consume(self, records):
        return [*records, *records]


def test_one_that_raises_silences_no_other():
    async def work(loop):
        told = []
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        broker, first, last = ScriptedBroker(), Marks(""), Marks("")
        async with producer(broker, first, RaisesLater(), last, value_serializer=str.encode) as p:
            await p.send_and_wait("t", "v", partition=0)
        assert [type(each) for each in told] == [ZeroDivisionError]
        assert first.acknowledged == last.acknowledged == [(0, 0, type(None))]

    run(work)


class RaisesAtItsEnd(ProducerInterceptor, ConsumerInterceptor):
    def close(self):
        raise ZeroDivisionError


class CountsEnds(ProducerInterceptor, ConsumerInterceptor):
    count = 0

    def close(self):
        self.count += 1


@pytest.mark.parametrize("make", [producer, consumer])
def test_one_that_cannot_be_closed_keeps_no_other_open(make):
    async def work():
        first, last = CountsEnds(), CountsEnds()
        client = make(ScriptedBroker(), first, RaisesAtItsEnd(), last)
        await client.start()
        with pytest.raises(ZeroDivisionError):
            await client.stop()
        assert (first.count, last.count) == (1, 1)

    run(work)


class Gives(ProducerInterceptor):
    def __init__(self, given):
        self.given = given

    def on_send(self, record):
        return self.given


class AsyncInterceptor(ProducerInterceptor):
    async def on_send(self, record):
        return record


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Gives(None), r"Gives.on_send must give a ProducerRecord .*, not None"),
        (lambda: Gives("x"), r"Gives.on_send must give a ProducerRecord .*, not 'x' \(str\)"),
        (AsyncInterceptor, "AsyncInterceptor.on_send must not be async"),
    ],
)
def test_what_an_interceptor_gives_is_checked(made, says):
    """`cannot unpack non-iterable NoneType object` was all that it said."""

    async def work():
        async with producer(ScriptedBroker(), made()) as p:
            with pytest.raises(errors.InvalidArgument, match=says):
                await p.send("t", b"v", partition=0)

    run(work)


class Hands(ConsumerInterceptor):
    def __init__(self, given):
        self.given = given

    def on_consume(self, records):
        return self.given


@pytest.mark.parametrize("given", [None, [1], (each for each in ()), "x"])
def test_what_an_interceptor_hands_out_is_checked(given):
    async def work():
        broker = ScriptedBroker()
        put(broker, b"a")
        hands = Hands(given)
        async with consumer(broker, hands) as c:
            c.assign([WHERE])
            c.seek(WHERE, 0)
            with pytest.raises(errors.InvalidArgument, match=r"Hands.on_consume must give a list of ConsumerRecord"):
                await c.poll(timeout_ms=1000)
            assert await c.position(WHERE) == 0

    run(work)


def test_nothing_is_added():
    async def work():
        broker = ScriptedBroker()
        put(broker, b"a")
        async with consumer(broker, Adds) as c:
            c.assign([WHERE])
            c.seek(WHERE, 0)
            with pytest.raises(errors.IllegalState, match="added records"):
                await c.poll()

    run(work)


def committed(message):
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return OffsetCommitResponse(topics=topics)


def test_commits_are_told():
    async def work():
        broker, reads = ScriptedBroker(), Reads()
        broker.script(ApiKey.OFFSET_COMMIT, committed)
        async with consumer(broker, reads, group_id="g", enable_auto_commit=False) as c:
            c.assign([WHERE])
            await c.commit({WHERE: 5})
            await asyncio.sleep(0)
        assert reads.commits == [{WHERE: OffsetAndMetadata(5)}]

    run(work)


@pytest.mark.parametrize("wrong", [[object()], Reads(), [Reads], len])
def test_something_else_is_refused(wrong):
    with pytest.raises(errors.ConfigurationError, match="a list of ProducerInterceptor"):
        Producer(interceptor_classes=wrong)


def test_a_java_class_has_no_meaning_here(caplog):
    Producer.from_config({"interceptor.classes": "com.example.Interceptor"})
    assert "interceptor_classes has no meaning" in caplog.text
