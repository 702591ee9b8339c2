"""Fetch sessions and throttling of a consumer, against a scripted broker in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Consumer, TopicPartition
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.fetch import FetchResponse
from oncelog.wire.record_batch import build_batch

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class SessionBroker(ScriptedBroker):
    """Gives a session and waits a little, as a broker with nothing to send."""

    def __init__(self):
        super().__init__()
        self.delay_s[ApiKey.FETCH] = 0.5
        self.fetched = {}

    def _fetch(self, message, code):
        if message.session_epoch == 0:
            self.fetched = {}
        for topic in message.topics:
            for each in topic.partitions:
                self.fetched[each.partition] = (topic, each)
        for topic in message.forgotten_topics_data:
            for index in topic.partitions:
                self.fetched.pop(index)
        by_topic = [topic.replace(partitions=[each]) for topic, each in self.fetched.values()]
        reply = super()._fetch(message.replace(topics=by_topic), code)
        reply.responses = [each for each in reply.responses if each.partitions[0].records]
        return FetchResponse(session_id=7, responses=reply.responses)


def consumer_of(broker, **config):
    return Consumer(bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest", **config)


def named(request):
    return sorted(each.partition for topic in request.topics for each in topic.partitions)


async def polled(consumer, seconds):
    ends, found = asyncio.get_running_loop().time() + seconds, []
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        found += await consumer.poll(timeout_ms=int(left * 1000) + 1)
    return found


def test_partitions_are_named_once():
    async def work():
        broker = SessionBroker()
        async with consumer_of(broker) as consumer:
            consumer.assign([ZERO, ONE])
            await polled(consumer, 3)
            first, second, *_ = broker.requests(ApiKey.FETCH)
            assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [0, 1])
            assert (second.session_id, second.session_epoch, named(second)) == (7, 1, [])
            broker.append("t", 1, build_batch([(0, None, b"v", ())]))
            assert [record.value for record in await polled(consumer, 2)] == [b"v"]
            assert [1] in [named(each) for each in broker.requests(ApiKey.FETCH)[2:]]

    run(work)


def test_a_session_that_the_broker_lost_is_begun_again():
    async def work():
        broker = SessionBroker()
        async with consumer_of(broker) as consumer:
            consumer.assign([ZERO, ONE])
            await polled(consumer, 1)
            broker.script(ApiKey.FETCH, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            await polled(consumer, 2)
            begun = [each for each in broker.requests(ApiKey.FETCH) if each.session_epoch == 0]
            assert [named(each) for each in begun] == [[0, 1], [0, 1]]
            assert begun[1].session_id == 7

    run(work)


def test_the_rack_is_told():
    async def work():
        broker = SessionBroker()
        async with consumer_of(broker, client_rack="r") as consumer:
            consumer.assign([ZERO])
            await polled(consumer, 1)
            assert broker.requests(ApiKey.FETCH)[0].rack_id == "r"

    run(work)


@pytest.mark.parametrize("call", [Consumer.poll, Consumer.poll_arrow])
def test_the_next_fetch_leaves_before_the_application_works(call):
    """What was handed out is not waited for: broker and application work at the same time."""

    def on_its_way(consumer):
        (broker,) = [each for each in consumer.metrics().brokers if each.node_id == 1]
        return broker.request_count - broker.response_count

    async def work():
        broker = ScriptedBroker()
        broker.append("t", 0, build_batch([(0, None, b"v", ())]))
        async with consumer_of(broker) as consumer:
            consumer.assign([ZERO])
            found = await call(consumer)
            assert len(found) == 1
            assert on_its_way(consumer) == 1

    run(work)


def test_a_topic_that_was_never_looked_for_is_not_waited_for():
    """Nobody asked for its leader yet, so nothing has to be spared: no back-off before the first record."""

    async def work():
        broker = ScriptedBroker()
        broker.append("t", 0, build_batch([(0, None, b"v", ())]))
        async with consumer_of(broker, retry_backoff_ms=1000) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            began_s = asyncio.get_running_loop().time()
            assert len(await consumer.poll()) == 1
            assert asyncio.get_running_loop().time() - began_s < 0.1

    run(work)


def test_a_leader_that_nobody_knows_is_looked_for_once_per_back_off():
    async def work():
        broker = ScriptedBroker()
        broker.leader_id = -1
        async with consumer_of(broker, retry_backoff_ms=1000) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            await polled(consumer, 10)
            assert 10 <= len(broker.requests(ApiKey.METADATA)) <= 14

    run(work)


def test_what_is_here_is_handed_out_beside_a_stop():
    async def work():
        broker = ScriptedBroker()
        broker.append("t", 0, build_batch([(0, None, b"%d" % n, ()) for n in range(3)]))
        consumer = consumer_of(broker)
        await consumer.start()
        consumer.assign([ZERO, ONE])
        assert len(await consumer.poll(max_records=1)) == 1
        await consumer.stop()
        taken, moved = consumer._fetcher.take(10)  # a poll that was in its last step
        assert ([record.value for record in taken], moved) == ([b"1", b"2"], True)

    run(work)


def test_a_position_that_was_reset_between_the_look_and_the_request_is_not_asked_for():
    """Nothing is left to ask for then, and no empty request is sent: it would begin a session for nothing."""

    async def work():
        broker = ScriptedBroker()
        async with consumer_of(broker) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            tasks = consumer._cluster.tasks
            start, starts = tasks.start, []

            def start_late(work, *, name=None):
                if (name or "").startswith("oncelog-fetch-") and not starts:
                    starts.append(name)
                    consumer._positions.by_partition[ZERO].jump(None, reset_to=-2)
                return start(work, name=name)

            tasks.start = start_late
            await polled(consumer, 1)
            assert starts
            assert all(named(request) for request in broker.requests(ApiKey.FETCH))

    run(work)
